"""The one transport: a model behind an HTTP endpoint that streams, in any wire format.

One attempt per call and no hidden retry, redirect or proxy: the session owns retries, so every attempt is a row in `calls`. Raw bytes go
to the SSE parser as they come, since parsing by the line in the client library costs more than the rest of the call.

Four timeouts, each a kind of failure of its own: `connect_timeout`, `first_token_timeout`, `idle_timeout` (no byte for that long) and
`total_timeout`. Keys are read when the line is opened, from the environment or a file, and are kept in the connection's headers only.
"""

from __future__ import annotations

import asyncio
import io
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import ForcedThinking, ModelInfo, PriceRef, step_format
from ttc_eval.models.endpoint import api_key, check_headers, checked_url, joined, with_extra
from ttc_eval.models.rate import Outcome, Window
from ttc_eval.records import NOTHING_USED, Request, Response, Timings, digest, json_keys
from ttc_eval.thinking import ThinkingMode, ThinkingSupport
from ttc_eval.wire.base import Stream, WireFormat
from ttc_eval.wire.failures import RETRYABLE, clean, used_up_for
from ttc_eval.wire.formats import format_named
from ttc_eval.wire.openai_chat import ChatFormat, with_options
from ttc_eval.wire.reward import Pieces
from ttc_eval.wire.sse import EventTooLarge, SSEParser
from ttc_eval.wire.think_tags import ThinkTags

if TYPE_CHECKING:
    import aiohttp

_ERROR_BODY_BYTES = 64 * 1024
_LINGER_S = 0.25  # how long the end of a finished stream is waited for, so that its connection can be used again
_LARGE_BODY_BYTES = 1024 * 1024
# Fields of any format that shape what is paid for or how it is read, whether or not a request carries them.
_OURS = frozenset(
    {"model", "messages", "input", "contents", "stream", "stream_options", "n", "stop", "temperature", "top_p", "logprobs", "top_logprobs"}
    | {"max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig"}
)
_NOT_A_STREAM = ("application/json", "text/html")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds on one call, in seconds.

    Attributes:
        connect_s: until the connection stands.
        first_token_s: until the first token of thinking or answer; reasoning that is not shown counts as waiting.
        idle_s: between two pieces of the stream, after the first token.
        total_s: the whole exchange.
    """

    connect_s: float = 10.0
    first_token_s: float = 300.0
    idle_s: float = 120.0
    total_s: float = 1800.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise UserError(f"timeouts.{name}={getattr(self, name)}: give seconds above 0")


@dataclass(frozen=True, slots=True)
class HttpModel:
    """A model at an endpoint; built from `configs/model/*.yaml`.

    Attributes:
        name: the name that tables and figures show.
        base_url: up to and without the path of the wire format, for example `https://api.openai.com/v1`.
        wire: a name in `ttc_eval.wire.formats.FORMATS`.
        model: the model's name at the endpoint.
        dialect: of Chat Completions, a name in `ttc_eval.wire.dialects.DIALECTS`; of Anthropic's API, its version; of TTC-v2, its surface;
            of a reward endpoint, a name in `ttc_eval.wire.reward.FORMS`; the others have none.
        endpoint: identity of the endpoint in every draw's address; by default the URL's host and path, without port and query.
            Two servers that give different answers on one host need different ones.
        api_key_env, api_key_file: where the key is; neither means that none is sent.
        headers: further headers; their values never show.
        extra_body: fields added to every request, beside those written here and never over them; they are stored, so no place for a key.
        forms: of Chat Completions, per form of thinking the fields that ask for it, instead of the dialect's; `{budget}` and `{effort}`
            in them are filled in.
        think_tags: of Chat Completions, the tags around thinking that the server leaves inside the answer; None when it leaves none.
    """

    name: str
    base_url: str
    model: str
    wire: str = "openai_chat"
    dialect: str = "generic"
    endpoint: str = ""
    api_key_env: str | None = None
    api_key_file: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict, hash=False)
    forms: Mapping[ThinkingMode, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    think_tags: ThinkTags | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_concurrency: int = 16
    thinking: ThinkingSupport = field(default_factory=ThinkingSupport)
    forced: ForcedThinking | None = None
    price: PriceRef = field(default_factory=PriceRef)

    def __post_init__(self) -> None:
        url = checked_url(self.base_url, self.name)
        self.format()
        check_headers(self.headers, self.name)
        for name in _OURS & set(self.extra_body):
            raise UserError(f"model.extra_body.{name}: this field is written here; the keys for it are in docs/models.md")
        if self.max_concurrency < 1:
            raise UserError(f"model.max_concurrency={self.max_concurrency}: model {self.name!r} needs 1 or more")
        if not self.endpoint:
            object.__setattr__(self, "endpoint", f"{url.hostname}{url.path.rstrip('/')}")

    @property
    def info(self) -> ModelInfo:
        """What is known of the model without connecting."""
        wire = self.format()
        continues = wire.continues and self.thinking.continues
        return ModelInfo(
            name=self.name,
            # What changes the request that is sent, or how its reply is read, makes another endpoint: its draws are other samples.
            endpoint=f"{self.endpoint}#{wire.identity}.{digest(self._shape())[:8]}",
            thinking=self.thinking,
            forced=self.forced,
            model=self.model,
            max_concurrency=self.max_concurrency,
            price=self.price,
            steps=step_format(self.forced, tells_stop=_tells_stop(wire)) if continues else None,
        )

    def _shape(self) -> Any:
        options = {"extra_body": self.extra_body, "forms": self.forms, "think_tags": self.think_tags and asdict(self.think_tags)}
        given = {name: json_keys(value) for name, value in options.items() if value}
        return [asdict(self.thinking), given] if given else asdict(self.thinking)

    def format(self) -> WireFormat:
        """The wire format in which this model is spoken to. Raises `UserError` for a name or an option that there is not."""
        found = format_named(self.wire, self.dialect)
        return with_options(found, self.forms, self.think_tags) if self.forms or self.think_tags else found

    def body(self, request: Request, wire: WireFormat | None = None) -> dict[str, Any]:
        """The JSON that is posted for `request`; nothing is sent here.

        Raises `UserError` for a form of thinking that the model does not take, a request that its wire format cannot express, and an
        `extra_body` that would overwrite what is written here.
        """
        self.thinking.check(request.thinking, self.name)
        body = (self.format() if wire is None else wire).body(request, self.thinking)
        return with_extra(body, self.extra_body) if self.extra_body else body

    def check(self) -> None:
        """Raise `UserError` when the key that is named is missing."""
        api_key(self.api_key_env, self.api_key_file)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[HttpConnection]:
        """Open a pool of connections for as long as the context lasts. Raises `UserError` when the key is missing."""
        import aiohttp

        key, wire = api_key(self.api_key_env, self.api_key_file), self.format()
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": "ttc-eval",
        }
        headers |= {**wire.headers(key), **{str(name): str(value) for name, value in self.headers.items()}}
        secrets = {str(value) for value in self.headers.values() if len(str(value)) >= 8} | ({key} if key else set())
        connector = aiohttp.TCPConnector(
            limit=self.max_concurrency,
            limit_per_host=self.max_concurrency,
            ttl_dns_cache=300,
            force_close=not wire.keep_alive,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, connect=self.timeouts.connect_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=True,
        ) as session:
            connection = HttpConnection(self, wire, session, tuple(sorted(secrets, key=len, reverse=True)))
            try:
                yield connection
            finally:
                connection.window.close()


class HttpConnection:
    """An open line to an `HttpModel`. `window` is what it has learned of the endpoint's limit."""

    def __init__(self, model: HttpModel, wire: WireFormat, session: aiohttp.ClientSession, secrets: tuple[str, ...]) -> None:
        import aiohttp
        from yarl import URL

        self.window = Window(model.max_concurrency)
        self._model = model
        self._wire = wire
        self._whole = getattr(wire, "whole_body", False)
        self._turned_down = ("text/html",) if self._whole else _NOT_A_STREAM
        self._session = session
        self._secrets = secrets
        self._url = URL(joined(model.base_url, wire.path(model.model)), encoded=True)
        self._http: Any = aiohttp

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        """Send `request` once and return its response; `timeout` in seconds bounds the whole, waiting for a place included.

        A provider is sent the same whichever `attempt` it is.

        Raises `CallFailed` for every failure of the exchange, and `UserError`, before anything is sent, for a request that the model or
        the dialect cannot express.
        """
        model = self._model
        body = model.body(request, self._wire)
        payload = orjson.dumps(body)
        sent = {name: body[name] for name in model.extra_body} | self._wire.what_was_sent(body)
        give_up_at = math.inf if timeout is None else asyncio.get_running_loop().time() + timeout
        round_ = await self._place(give_up_at)
        outcome, asked = Outcome.NEUTRAL, None
        try:
            response = await self._exchange(payload, sent, give_up_at, round_)
            outcome = Outcome.SUCCESS
        except CallFailed as failure:
            if failure.kind in ("rate_limited", "overloaded"):
                outcome, asked = Outcome.REFUSED, failure.retry_after
            raise
        finally:
            self.window.leave(round_, outcome, asked)
        return response

    async def _place(self, give_up_at: float) -> int:
        if give_up_at == math.inf:
            return await self.window.enter()
        try:
            async with asyncio.timeout_at(give_up_at):
                return await self.window.enter()
        except TimeoutError:
            message = "the time for this call was used up while the endpoint's rate limit held it back; nothing was sent"
            raise CallFailed("total_timeout", message, retryable=False, usage=NOTHING_USED) from None

    async def _exchange(self, payload: bytes, sent: dict[str, Any], give_up_at: float, round_: int) -> Response:
        http, limits = self._http, self._model.timeouts
        clock = asyncio.get_running_loop().time
        started_at, start = time.time(), time.perf_counter()
        now = clock()
        total_at = min(now + limits.total_s, give_up_at)
        phase, stream = "first_token", None
        reply: aiohttp.ClientResponse | None = None
        try:
            async with asyncio.timeout_at(min(now + limits.first_token_s, total_at)) as guard:
                # aiohttp warns when a large body is given as bytes; from a file it writes it in pieces.
                data = payload if len(payload) < _LARGE_BODY_BYTES else io.BytesIO(payload)
                reply = await self._session.post(self._url, data=data, allow_redirects=False)
                if reply.status != 200 or reply.content_type in self._turned_down:
                    raise await self._turned_away(reply)
                self.window.accepted(round_, used_up_for(reply.headers, time.time()))
                stream, content = self._wire.stream(self._secrets), reply.content
                parser: SSEParser | Pieces = Pieces() if self._whole else SSEParser()
                first_token_s: float | None = None
                async for chunk in content.iter_any():
                    for event in parser.feed(chunk):
                        stream.feed(event)
                    if stream.done:
                        break
                    if stream.started:
                        if first_token_s is None:
                            first_token_s, phase = time.perf_counter() - start, "idle"
                        guard.reschedule(min(clock() + limits.idle_s, total_at))
                latency_s = time.perf_counter() - start
                if not stream.done and not parser.close():
                    raise stream.failure("incomplete", "the stream ended inside an event")
                response = stream.finish(Timings(started_at, latency_s if first_token_s is None else first_token_s, latency_s), sent=sent)
            if not reply.content.at_eof():
                await _linger(reply)
            return response
        except TimeoutError as error:
            raise self._timed_out(error, phase, clock() >= total_at, total_at == give_up_at, stream) from None
        except EventTooLarge as error:
            raise self._broken("invalid_response", str(error), stream) from None
        except http.ClientSSLError as error:
            raise CallFailed("connection", self._text(error), retryable=False, usage=NOTHING_USED) from None
        except http.ClientConnectorError as error:
            raise CallFailed("connection", self._text(error), retryable=True, usage=NOTHING_USED) from None
        except http.ClientResponseError as error:  # not HTTP; its own text would show the request's headers
            raise self._broken("invalid_response", f"the reply is not HTTP: {type(error).__name__}", stream) from None
        except (http.ClientError, OSError) as error:
            raise self._broken("connection", f"the connection broke: {self._text(error)}", stream) from None
        finally:
            if reply is not None:
                reply.close()  # gives a connection that was read to its end back, and closes any other

    async def _turned_away(self, reply: aiohttp.ClientResponse) -> CallFailed:
        body = bytearray()
        async for chunk in reply.content.iter_any():
            body += chunk
            if len(body) >= _ERROR_BODY_BYTES:
                break
        if reply.status == 200 and b'"error"' not in body:
            kind = clean(reply.content_type)
            wanted = "JSON" if self._whole else "an event stream"
            return CallFailed("invalid_response", f"expected {wanted}, got {kind}; check base_url", retryable=False, http_status=200)
        return self._wire.error(reply.status, reply.headers, bytes(body), time.time(), self._secrets)

    def _timed_out(self, error: TimeoutError, phase: str, total: bool, own: bool, stream: Stream | None) -> CallFailed:
        limits = self._model.timeouts
        if isinstance(error, self._http.ServerTimeoutError):
            return CallFailed("connect_timeout", f"no connection within {limits.connect_s:g} s", retryable=True, usage=NOTHING_USED)
        if total:
            kind, message = "total_timeout", "the time for this call was used up" if own else f"not finished within {limits.total_s:g} s"
        elif phase == "first_token":
            kind, message = "first_token_timeout", f"no token within {limits.first_token_s:g} s"
        else:
            kind, message = "idle_timeout", f"nothing came for {limits.idle_s:g} s"
        return self._broken(kind, message, stream, retryable=not (total and own))

    def _broken(self, kind: str, message: str, stream: Stream | None, *, retryable: bool | None = None) -> CallFailed:
        if stream is not None:
            return stream.failure(kind, message, retryable=retryable)
        return CallFailed(kind, clean(message, self._secrets), retryable=kind in RETRYABLE if retryable is None else retryable)

    def _text(self, error: Exception) -> str:
        return clean(str(error) or type(error).__name__, self._secrets)


def _tells_stop(wire: WireFormat) -> bool:
    """Whether replies say that a stop string ended them: not all servers that speak Chat Completions do."""
    return not isinstance(wire, ChatFormat) or wire.dialect.stop_string is not None


async def _linger(reply: aiohttp.ClientResponse) -> None:
    # The response is complete: whatever happens now costs the connection at most.
    try:
        async with asyncio.timeout(_LINGER_S):
            await reply.content.readany()
    except Exception:
        reply.close()
