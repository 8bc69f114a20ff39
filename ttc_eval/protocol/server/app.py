"""The HTTP side: routes, the token, the size and time of a body, and errors in one shape."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ttc_eval.protocol.server.events import SURFACES
from ttc_eval.protocol.server.intake import read
from ttc_eval.protocol.server.refusals import DEFECT, UNAUTHORIZED, Refusal, Refused, out_of_time, too_large
from ttc_eval.protocol.server.service import Service, is_loopback
from ttc_eval.protocol.server.stream import Answer, Desk

_REBOUND = Refusal(403, "permission_error", "foreign_host", "Without a token this server answers to the names of this machine only.")
_NOT_JSON = Refusal(415, "invalid_request_error", "unsupported_media_type", "Send the body as Content-Type: application/json.")


def application(desk: Desk) -> Starlette:
    """The ASGI application over one open line to a model."""

    async def generate(request: Request) -> Any:
        refusal = _turned_away(request, desk.service) or desk.turned_away()
        if refusal is not None:
            return _json(refusal)
        bounds = desk.service.bounds
        deadline = asyncio.get_running_loop().time() + bounds.request_s
        try:
            async with asyncio.timeout_at(deadline):
                call = read(await _body(request, bounds.body_bytes), desk.service)
        except Refused as refused:
            return _json(refused.refusal)
        except TimeoutError:
            return _json(out_of_time(bounds.request_s))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        return Answer(desk, call, SURFACES[request.url.path], deadline, request.url.path)

    async def healthz(_: Request) -> Response:
        if desk.draining:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ok"})

    async def models(request: Request) -> Response:
        refusal = _turned_away(request, desk.service)
        if refusal is not None:
            return _json(refusal)
        served = {"id": desk.service.info.name, "object": "model", "max_thinking_budget_tokens": desk.service.most}
        return JSONResponse({"object": "list", "data": [served]})

    routes = [Route(path, generate, methods=["POST"]) for path in SURFACES]
    routes += [Route("/healthz", healthz), Route("/v1/models", models)]
    return Starlette(routes=routes, exception_handlers={HTTPException: _not_served, Exception: _defect})


def _turned_away(request: Request, service: Service) -> Refusal | None:
    """Why this client is not listened to; None when it is."""
    if service.token is not None:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), service.token.encode())
        if kind.lower() != "bearer" or not right:
            return UNAUTHORIZED
    elif not _is_this_machine(request.headers.get("host", "")):
        # A page in this machine's browser can have its own name point here.
        return _REBOUND
    if request.method == "POST" and request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _NOT_JSON
    return None


def _is_this_machine(host: str) -> bool:
    name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    return is_loopback(name)


async def _body(request: Request, limit: int) -> bytes:
    stated = request.headers.get("content-length", "0")
    if stated.isdigit() and int(stated) > limit:
        raise Refused(too_large(limit))
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Refused(too_large(limit))
    return bytes(body)


def _json(refusal: Refusal) -> JSONResponse:
    return JSONResponse(refusal.body(), refusal.status, dict(refusal.headers))


async def _not_served(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    paths = ", ".join((*SURFACES, "/v1/models", "/healthz"))
    code = "not_found" if status == 404 else "method_not_allowed" if status == 405 else "http_error"
    return _json(Refusal(status, "not_found_error" if status == 404 else "invalid_request_error", code, f"This server has: {paths}."))


async def _defect(_: Request, __: Exception) -> Response:
    return _json(DEFECT)
