"""A tool loop: the model calls tools, gets their results and goes on, until it answers.

Every step is a fresh generation that thinks anew and reads again all that came before it, so a loop of ten steps pays for thinking ten
times. `costs` shows that step by step.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.history import History, ToolResult, history_of
from ttc_eval.models.base import PriceRef
from ttc_eval.prices import cost
from ttc_eval.records import JSON, CallStop, Request, Response
from ttc_eval.truncation import cut_of

Respond = Callable[[Request], Awaitable[Response]]
Tool = Callable[[JSON], str | Awaitable[str]]

PAUSED = ("pause_turn", "compaction")  # the turn is not over: it goes back as it stands, and the model goes on


@dataclass(frozen=True, slots=True)
class Step:
    """One generation of a loop, and the results of the tools that it called."""

    request: Request
    response: Response
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A whole loop.

    Attributes:
        ended_by: `answer`; `cut`, by the cap of a step (`note` says what to do); `stopped` for any other end, such as a refusal;
            `step_limit`; `failed`, when a request came to nothing. The steps before it were paid for and stay.
        history: what a further request would send.
    """

    steps: tuple[Step, ...]
    history: History
    ended_by: Literal["answer", "cut", "stopped", "step_limit", "failed"]
    note: str = ""
    failure: CallFailed | None = None

    @property
    def text(self) -> str:
        """The answer; empty when there is none."""
        return self.steps[-1].response.text if self.steps and self.ended_by == "answer" else ""


@dataclass(frozen=True, slots=True)
class StepCost:
    """What one step of a loop used, in tokens and USD. None is unknown. `thinking_usd` is the part of `usd` that thinking made."""

    step: int
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    usd: Decimal | None
    thinking_usd: Decimal | None


async def run_tools(respond: Respond, request: Request, tools: Mapping[str, Tool], *, max_steps: int = 10) -> ToolRun:
    """Run the loop that `request`, with the definitions of its tools in `request.tools`, starts.

    Args:
        respond: sends one request; a connection's `respond`, or anything that reserves and retries around it.
        tools: by name, what to do for a call; it is given the call's input. One that raises, or that does not exist, tells the model so.
        max_steps: generations at most.

    A failed request ends the loop, with what was spent before it. Raises `UserError` for a request that cannot be sent, before it is.
    """
    if max_steps < 1:
        raise UserError(f"max_steps={max_steps}: give 1 or more")
    history, steps = history_of(request), list[Step]()
    while len(steps) < max_steps:
        asked = history.next_request(request)
        try:
            response = await respond(asked)
        except CallFailed as failure:
            return ToolRun(tuple(steps), history, "failed", str(failure), failure)
        cut = cut_of(response, asked.max_output_tokens, asked.thinking.budget)
        if cut is not None:
            return ToolRun((*steps, Step(asked, response)), history, "cut", cut.advice)
        paused = (response.stop_raw or "") in PAUSED
        if response.stop is not CallStop.TOOL_USE and not paused:
            if response.complete:
                return ToolRun((*steps, Step(asked, response)), history.answered(response), "answer")
            return ToolRun((*steps, Step(asked, response)), history, "stopped", f"the model stopped: {response.stop_raw}")
        history = history.answered(response)
        results = () if paused else tuple([await _result(call, tools) for call in history.calls])
        if not paused:
            history = history.with_results(results)
        steps.append(Step(asked, response, results))
    return ToolRun(tuple(steps), history, "step_limit", f"no answer after {max_steps} steps; raise max_steps")


def costs(run: ToolRun, price: PriceRef) -> tuple[StepCost, ...]:
    """What each step of a loop used and cost. Thinking is billed as output; without its token count its part is unknown."""
    return tuple(_step_cost(place, step.response, price) for place, step in enumerate(run.steps))


def _step_cost(place: int, response: Response, price: PriceRef) -> StepCost:
    used, at = response.usage, response.timings.started_at
    usd, thinking_usd = cost(price, used, at), None
    if usd is not None and used.reasoning_tokens is not None and used.output_tokens is not None:
        without = cost(price, replace(used, output_tokens=used.output_tokens - used.reasoning_tokens, reasoning_tokens=0), at)
        thinking_usd = None if without is None else usd - without
    return StepCost(place, used.input_tokens, used.output_tokens, used.reasoning_tokens, usd, thinking_usd)


async def _result(call: JSON, tools: Mapping[str, Tool]) -> ToolResult:
    identity, name, given = str(call.get("id")), str(call.get("name")), call.get("input")
    tool = tools.get(name)
    if tool is None:
        return ToolResult(identity, f"there is no tool {name!r}; there are: {', '.join(sorted(tools))}", failed=True)
    try:
        result = tool(given if isinstance(given, Mapping) else {})
        return ToolResult(identity, await result if inspect.isawaitable(result) else result)
    except Exception as error:  # the model is told, as it would be by any tool; the loop is not its victim
        return ToolResult(identity, f"{type(error).__name__}: {error}", failed=True)
