"""A run of the suite against one server: find its surfaces, send the probes, judge, and tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from ttc_eval.errors import UserError
from ttc_eval.protocol.conformance.checks import judge
from ttc_eval.protocol.conformance.findings import Finding, Verdict
from ttc_eval.protocol.conformance.probes import PATHS, Line, Plan, observe
from ttc_eval.protocol.conformance.reading import Reply, Surface
from ttc_eval.protocol.conformance.requirements import REQUIREMENTS

_SHOWN_CHARS = 2000


@dataclass(frozen=True, slots=True)
class SurfaceReport:
    """The findings on one surface."""

    surface: Surface
    url: str
    findings: Mapping[str, Finding]

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each verdict."""
        found = Counter(finding.verdict.value for finding in self.findings.values())
        return {verdict.value: found[verdict.value] for verdict in Verdict}


@dataclass(frozen=True, slots=True)
class Report:
    """The findings on all surfaces of one server."""

    model: str
    surfaces: tuple[SurfaceReport, ...]

    @property
    def conforms(self) -> bool:
        """Whether no MUST and no MUST NOT failed."""
        return not any(finding.verdict is Verdict.FAILED for one in self.surfaces for finding in one.findings.values())

    def plain(self) -> dict[str, Any]:
        """This report as JSON values, with the sentence of each requirement and the evidence of each finding."""
        surfaces = [
            {
                "surface": one.surface,
                "url": one.url,
                "summary": one.counts,
                "checks": [_plain_finding(name, finding) for name, finding in one.findings.items()],
            }
            for one in self.surfaces
        ]
        return {"protocol": "TTC-v2", "model": self.model, "conforms": self.conforms, "surfaces": surfaces}


def endpoints(url: str, surface: Surface | None) -> dict[Surface, str]:
    """Where the surfaces of a server are: `url` is one of them, or what their paths are appended to. Raises `UserError`."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port >= 0)
    except ValueError:
        usable = False
    if not usable or "@" in url or parts.query or parts.fragment:
        raise UserError("the URL: give http(s)://host[:port][/path], with no user, password or query in it")
    base = url.rstrip("/")
    for known, path in PATHS.items():
        if base.endswith(path.removeprefix("/v1")):
            if surface not in (None, known):
                raise UserError(f"--surface {surface}: the URL ends in {path.removeprefix('/v1')}, which is the surface {known}")
            return {known: base}
    base = base.removesuffix("/v1")
    return {known: base + path for known, path in PATHS.items() if surface in (None, known)}


async def run(url: str, plan: Plan, *, surface: Surface | None = None, token: str | None = None) -> Report:
    """Check a server.

    Args:
        surface: the one to check; None checks all that the server has.
        token: sent as a bearer token, and shown nowhere.

    Raises `UserError` when the server cannot be reached, turns the token away or has none of the surfaces.
    """
    import aiohttp

    headers = {"User-Agent": "ttc-eval-conformance", **({} if token is None else {"Authorization": f"Bearer {token}"})}
    places = endpoints(url, surface)
    async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session:
        model = plan.model or await _model(session, next(iter(places.values())))
        reports = []
        for known, place in places.items():
            line = Line(session, place, known, plan.timeout_s, token)
            if await _exists(line):
                reports.append(SurfaceReport(known, place, judge(await observe(line, replace(plan, model=model)))))
    if not reports:
        raise UserError(f"{', '.join(places.values())}: status 404 or 405, so this server has none of the surfaces; give the URL of one")
    return Report(model, tuple(reports))


async def _exists(line: Line) -> bool:
    """Whether the server has this surface. An empty request tells, without work for the model."""
    reply = await line.send("is it there", {})
    if reply.status == 0:
        raise UserError(f"{line.url}: {reply.problem}; is the server running?")
    if reply.status in (401, 403):
        raise UserError(f"{line.url}: status {reply.status}; give the token with --token-env or --token-file")
    return reply.status not in (404, 405, 501)


async def _model(session: Any, place: str) -> str:
    import aiohttp

    listing = (
        next(place.removesuffix(path.removeprefix("/v1")) for path in PATHS.values() if place.endswith(path.removeprefix("/v1")))
        + "/models"
    )
    advice = "give its name with --model"
    try:
        async with session.get(listing, timeout=aiohttp.ClientTimeout(total=30), allow_redirects=False) as reply:
            if reply.status in (401, 403):
                raise UserError(f"{listing}: status {reply.status}; give the token with --token-env or --token-file")
            found = await reply.json(content_type=None) if reply.status == 200 else {}
        return str(found["data"][0]["id"])
    except (TimeoutError, aiohttp.ClientConnectionError) as error:
        raise UserError(f"{listing}: {type(error).__name__}; is the server running?") from None
    except (aiohttp.ClientError, ValueError, LookupError, TypeError):
        raise UserError(f"{listing}: the server does not tell which model it has; {advice}") from None


def _plain_finding(name: str, finding: Finding) -> dict[str, Any]:
    known = REQUIREMENTS[name]
    return {
        "name": name,
        "level": known.level.value,
        "sentence": known.sentence,
        "how": known.how,
        "result": finding.verdict.value,
        "reason": finding.reason,
        "evidence": [plain_reply(reply) for reply in finding.evidence],
    }


def plain_reply(reply: Reply) -> dict[str, Any]:
    """What was sent and what came, cut to a readable size."""
    final = reply.final if reply.streamed else None
    return {
        "probe": reply.probe,
        "sent": reply.sent,
        "status": reply.status,
        "content_type": reply.content_type,
        "problem": reply.problem,
        "events": len(reply.events),
        "final_message": None if final is None else _cut(final),
        "body": None if final is not None else reply.body[:_SHOWN_CHARS].decode("utf-8", "replace"),
    }


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _SHOWN_CHARS:
        # The end matters as well: it is where [WAIT] stands.
        return f"{value[: _SHOWN_CHARS // 2]} … {value[-_SHOWN_CHARS // 2 :]}"
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return [_cut(item) for item in value] if isinstance(value, list) else value
