"""The probes: the requests that one surface is sent, by plain HTTP, and their replies as they come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from ttc_eval.errors import UserError
from ttc_eval.protocol.conformance.findings import Observations
from ttc_eval.protocol.conformance.reading import WAIT, Reply, Surface

if TYPE_CHECKING:
    import aiohttp

PROMPT = "Work out 37+8-5*3+9*7-4 step by step from left to right, without precedence, modulo 100. What is the result?"
HARD_PROMPT = "Work out 37+8-5*3+9*7-4+6*8-2+5*9 step by step from left to right, without precedence, modulo 100. What is the result?"

PATHS: Mapping[Surface, str] = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}
_MOST_BYTES = 16 * 1024 * 1024
_BEYOND = 2**31 - 1
_GROWTH, _MOST_BUDGET = 4, 4096
_STOPS, _STOP_TRIES = 4, 4  # as many stop sequences as common APIs take


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send.

    Attributes:
        model: its name at the server; None takes the first that the server lists.
        prompt, hard_prompt: a question that takes thinking and ends in a short answer; one that a budget of 1 cannot do.
        budget: of the probe with room, raised while it runs out and lowered while the server refuses it.
        max_tokens: room for the text; timeout_s: for one probe; slack: see `Observations`.
    """

    model: str | None = None
    prompt: str = PROMPT
    hard_prompt: str = HARD_PROMPT
    budget: int = 256
    max_tokens: int = 64
    slack: int = 4
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        if self.model == "":
            raise UserError("--model: it is empty; give the model's name at the server")
        if self.budget < 8 or self.max_tokens < 2:
            raise UserError("--budget: give 8 tokens or more; --max-tokens: give 2 or more")
        if self.slack < 0 or not 0 < self.timeout_s < 1e9:
            raise UserError("--slack: give 0 or more tokens; --timeout: give seconds above 0")

    def body(self, prompt: str, budget: object = None, **others: Any) -> dict[str, Any]:
        """A request body; without `budget` an ordinary call."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self.max_tokens,
            "stream": True,
        }
        if budget is not None:
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        return {**body, **others}


@dataclass(frozen=True, slots=True)
class Line:
    """Where one surface is, and the session to speak to it. `secret` is kept out of what is shown."""

    session: aiohttp.ClientSession
    url: str
    surface: Surface
    timeout_s: float
    secret: str | None = field(default=None, repr=False)

    async def send(self, probe: str, body: dict[str, Any], *, peek: bool = False) -> Reply:
        """Post a body and take in the whole reply; with `peek`, of a reply with status 200 nothing but that."""
        import aiohttp

        status, content_type, received, problem = 0, "", bytearray(), None
        try:
            async with asyncio.timeout(self.timeout_s):
                data, headers = orjson.dumps(body), {"Content-Type": "application/json", "Accept": "text/event-stream"}
                async with self.session.post(self.url, data=data, headers=headers, allow_redirects=False) as reply:
                    status, content_type = reply.status, reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                    if not (peek and status == 200):
                        async for chunk in reply.content.iter_any():
                            received += chunk
                            if len(received) > _MOST_BYTES:
                                problem = f"the reply is larger than {_MOST_BYTES} bytes"
                                break
                    else:
                        reply.close()
        except TimeoutError:
            problem = f"the reply did not end within {self.timeout_s:g} s"
        except (aiohttp.ClientError, OSError) as error:
            problem = f"the connection broke: {type(error).__name__}"
        shown = bytes(received) if self.secret is None else bytes(received).replace(self.secret.encode(), b"[redacted]")
        return Reply(probe, self.surface, body, status, content_type, shown, problem)


async def observe(line: Line, plan: Plan) -> Observations:
    """Send all probes, one after another: those of a server's first user, not of a load test."""
    roomy = await _roomy(line, plan)
    budget = roomy.budget or plan.budget
    ordinary = await line.send("ordinary", plan.body(plan.prompt))
    wrong_type = {"type": "Enabled", "budget_tokens": budget}
    return Observations(
        roomy=roomy,
        tight=await line.send("tight", plan.body(plan.hard_prompt, 1)),
        short=await line.send("short", plan.body(plan.prompt, budget, max_tokens=1)),
        ordinary=ordinary,
        other_type=await line.send("other type", plan.body(plan.prompt, thinking=wrong_type)),
        too_large=await line.send("too large", plan.body(plan.prompt, _BEYOND), peek=True),
        invalid=(
            await line.send("no budget", plan.body(plan.prompt, thinking={"type": "enabled"})),
            await line.send("budget 0", plan.body(plan.prompt, 0)),
            await line.send("budget of text", plan.body(plan.prompt, "many")),
        ),
        stop_in_thinking=await _stop_in_thinking(line, plan, roomy),
        stop_in_text=await _stop_in_text(line, plan, roomy, ordinary),
        slack=plan.slack,
    )


async def _roomy(line: Line, plan: Plan) -> Reply:
    budget, refused = plan.budget, False
    reply = await line.send("roomy", plan.body(plan.prompt, budget))
    while reply.status == 400 and b"budget_exceeded" in reply.body and budget > 8:
        budget, refused = budget // 2, True
        reply = await line.send("roomy", plan.body(plan.prompt, budget))
    while not refused and reply.streamed and not reply.text_of("text") and budget * _GROWTH <= _MOST_BUDGET:
        budget *= _GROWTH
        larger = await line.send("roomy", plan.body(plan.prompt, budget))
        if larger.status != 200 or larger.final is None:
            break  # beyond what the server or its model can take
        reply = larger
    return reply


async def _stop_in_thinking(line: Line, plan: Plan, roomy: Reply) -> tuple[Reply, ...]:
    stop = _commonest(roomy.text_of("thinking").removesuffix(WAIT), 3)
    if stop is None:
        return ()
    first = await line.send("stop in thinking", plan.body(plan.prompt, roomy.budget, stop_sequences=[stop]))
    if stop in first.text_of("thinking"):
        return (first,)
    return first, await line.send("stop in thinking", plan.body(plan.prompt, roomy.budget, stop_sequences=[stop]))


async def _stop_in_text(line: Line, plan: Plan, roomy: Reply, ordinary: Reply) -> tuple[Reply, ...]:
    """Stop sequences that an answer is likely to hold. A short answer differs from draw to draw, so each reply adds to the choice."""
    replies: list[Reply] = []
    budget = roomy.budget if roomy.text_of("text") else None
    texts = roomy.text_of("text") or ordinary.text_of("text")
    while len(replies) < _STOP_TRIES and (stops := _characters(texts)):
        replies.append(await line.send("stop in text", plan.body(plan.prompt, budget, stop_sequences=stops[:_STOPS])))
        if replies[-1].stop_reason == "stop_sequence" or not replies[-1].streamed:
            break
        texts += replies[-1].text_of("text")
    return tuple(replies)


def _characters(text: str) -> list[str]:
    """The characters of a text that are no white space, the most common first."""
    return [character for character, _ in Counter("".join(text.split())).most_common()]


def _commonest(text: str, at_least: int) -> str | None:
    """The most common character of a text that is no white space; None when none is there that often."""
    found = Counter(character for character in text if not character.isspace()).most_common(1)
    return found[0][0] if found and found[0][1] >= at_least else None
