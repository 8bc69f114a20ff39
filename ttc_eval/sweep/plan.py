"""What a sweep will do and can cost at most, worked out without sending anything. Pure, but for reading the study.

The bounds are those that the ledger reserves (`ttc_eval.exchange.call_bound`): input at one token a byte, output at its cap, the price at
its dearest rate. What is already solved or drawn is left out, draws that cells share count once, and limits bind what is left.

Bounds hold for a sweep in which every call is made once; `retried` for one in which every call is repeated as often as `retry` allows. A
call that was turned away (429, 503 before work) costs nothing, so a real sweep comes near the second only when replies break half-way.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ttc_eval import prices
from ttc_eval.asking import DrawConfig, draw_request, judge_request
from ttc_eval.exchange import call_bound, response_of
from ttc_eval.forcing import Part, next_segment
from ttc_eval.ledger import Limits, add
from ttc_eval.models.base import Model, ModelInfo, WritesRequests
from ttc_eval.records import Amounts, Message, Problem, Request, Response, Usage
from ttc_eval.strategies.base import ChangesThinking, HasSecondStage, Most
from ttc_eval.sweep.history import History
from ttc_eval.sweep.means import Means
from ttc_eval.sweep.prepare import Cell, Plan, cap_of, first_judged, first_request, main_thinkings
from ttc_eval.thinking import AtLimit, Thinking
from ttc_eval.verifiers import LocalVerifier

# Text that a model has written is sent again (a thought that is continued, a candidate that is judged): its size is not known before. No
# vocabulary in use averages as many bytes a token.
_BYTES_PER_TOKEN = 16
_BOUND = ("calls", "input_tokens", "output_tokens", "usd", "verifier_calls")

_Group = tuple[int, str, int, tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class CellForecast:
    """What one cell will do.

    Attributes:
        body: what its first request posts, without the conversation; None for a model that runs here and posts nothing.
        cap: tokens for all output of a draw; segments: requests that make one draw, at most.
        problems: how many are left to solve.
        draws: new draws at most; stored: draws that are there already and are used again; scores: verifier calls at most;
            asks: requests at most that the strategy words itself. All are None when the strategy does not say, and so are the bounds.
        bound: the most that its new calls can use; retried: with every call repeated as often as is allowed.
        expected: what they will use by the means of stored draws; None when there are none to go by.
        priced: whether the model has a price; USD means nothing without one.
    """

    cell: Cell
    body: Mapping[str, Any] | None
    cap: int
    segments: int
    problems: int
    draws: int | None
    stored: int
    scores: int | None
    asks: int | None
    bound: Amounts | None
    retried: Amounts | None
    expected: Amounts | None
    priced: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a sweep will do: its cells, and their sums under the limits of the sweep. None where a cell's is not known."""

    cells: tuple[CellForecast, ...]
    bound: Amounts | None
    retried: Amounts | None
    expected: Amounts | None

    @property
    def priced(self) -> bool:
        """Whether every call has a price."""
        return all(cell.priced for cell in self.cells if cell.problems)


def forecast(plan: Plan, history: History, means: Means) -> Forecast:
    """What running `plan` will do, after what `history` holds; `means` are those of stored draws to expect the like of."""
    planned: dict[_Group, int] = defaultdict(int)
    stored = _Stored(history.calls(pool for cell in plan.cells for pool in cell.draw.all_pools))
    cells = [_cell(cell, history, means, planned, stored) for cell in plan.cells]
    limits, billed = plan.cells[0].config.limits.sweep, history.billed
    return Forecast(
        tuple(cells),
        _within(_sum([cell.bound for cell in cells]), limits, billed),
        _within(_sum([cell.retried for cell in cells]), limits, billed),
        _within(_sum([cell.expected for cell in cells]), limits, billed),
    )


def conversation_left_out(body: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a body that is the same for every draw of a cell: no conversation, no seed."""
    varying = {"messages", "input", "contents", "system", "instructions", "systemInstruction", "seed", "random_seed"}
    return {name: value for name, value in body.items() if name not in varying}


class _Stored:
    """Responses that are stored, by the key of their request."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = {row["key"]: row for row in rows if row["status"] == "ok"}

    def response(self, request: Request) -> Response | None:
        row = self._rows.get(request.key) if self._rows else None
        return None if row is None else response_of(row)

    def holds(self, request: Request, info: ModelInfo) -> bool:
        """Whether the whole draw is there."""
        if not self._rows:
            return False
        if info.forced is None or request.thinking.budget is None:
            return self.response(request) is not None
        parts: list[Part] = []
        while (segment := next_segment(request, info.forced, parts)) is not None:
            response = self.response(segment.request)
            if response is None:
                return False
            parts.append(Part(segment, response))
        return True


def _cell(cell: Cell, history: History, means: Means, planned: dict[_Group, int], stored: _Stored) -> CellForecast:
    config, info = cell.config, cell.model.info
    most: Most | None = getattr(config.strategy, "most", None)
    left = [problem for problem in cell.problems if problem.problem_id not in history.solved[cell.cell_id]]
    priced = all(prices.has_price(model.info.price) for model in cell.models)
    body = None
    if isinstance(cell.model, WritesRequests):
        body = conversation_left_out(cell.model.body(first_request(cell.draw, info, cell.problems[0], cap_of(config))))
    found = CellForecast(
        cell, body, cap_of(config), segments_of(config.thinking, info), len(left), None, 0, None, None, None, None, None, priced
    )
    if most is None:
        return found
    steps = _steps(cell, most)
    fresh, reused = [0] * len(steps), 0
    judged = 0 if isinstance(config.verifier, LocalVerifier) else most.scores + 2 * most.comparisons
    longest = max((step.cap for step in steps), default=0)
    total, again = Amounts(), Amounts()
    for problem in left:
        one = Amounts()
        for place, step in enumerate(steps):
            there, wanted = _new_draws(step, problem, planned, stored)
            fresh[place], reused = fresh[place] + wanted, reused + there
            one = add(one, _times(draw_bound(step.model.info, step.draw, problem, step.cap, priced=priced), wanted))
        if steps:
            one = add(one, _times(score_bound(cell, problem, longest * (1 + (most.comparisons > 0)), priced=priced), judged))
            one = add(one, _times(ask_bound(steps, problem, priced=priced), most.asks))
            one = add(one, Amounts(verifier_calls=most.judgements))
        total = add(total, _within_known(one, config.limits.problem, Amounts()))
        again = add(again, _within_known(_times(one, config.retry.max_attempts), config.limits.problem, Amounts()))
    charged, scores = history.charged[cell.cell_id], judged * len(left) if steps else 0
    asks = most.asks * len(left) if steps else 0
    bound = _within_known(total, config.limits.cell, charged)
    return replace(
        found,
        draws=sum(fresh),
        stored=reused,
        scores=scores,
        asks=asks,
        bound=bound,
        retried=_within_known(again, config.limits.cell, charged),
        expected=None if asks else _expected(cell, most, steps, fresh, scores, bound, means),
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A configuration that the strategy draws under: from which model, with which cap, and how many at most."""

    model: Model
    draw: DrawConfig
    cap: int
    count: int


def _steps(cell: Cell, most: Most) -> list[_Step]:
    """The configurations that the strategy draws under; none that a limit leaves no room for."""
    config, room = cell.config, cell.config.limits.problem.output_tokens
    asked = [(cell.model, cell.draw.under(thinking), most.draws) for thinking in main_thinkings(config)]
    larger = cell.draw.larger
    if cell.larger_model is not None and larger is not None:
        asked += [(cell.larger_model, larger.under(thinking), most.larger_draws) for thinking in (larger.thinking, *larger.pools)]
    elif isinstance(config.strategy, HasSecondStage):
        asked[-1] = (*asked[-1][:2], most.larger_draws)
    steps: list[_Step] = []
    for model, draw, count in asked:
        budget = draw.thinking.budget or 0
        cap = budget + config.answer_tokens if isinstance(config.strategy, ChangesThinking) else cap_of(config, draw.thinking)
        # What a strategy words itself is asked of the first, also where it draws nothing.
        if (count or (most.asks and not steps)) and (room is None or room > budget):
            steps.append(_Step(model, draw, cap if room is None else min(cap, room), count))
    return steps


def _new_draws(step: _Step, problem: Problem, planned: dict[_Group, int], stored: _Stored) -> tuple[int, int]:
    """How many draws of the step are there already, or will be by an earlier cell, and how many are new."""
    info, most, group = step.model.info, step.count, (id(step.model), step.draw.pool, step.cap, problem.messages)
    wanted = range(min(planned[group], most), most)
    there = sum(stored.holds(draw_request(step.draw, info, problem.messages, index, step.cap), info) for index in wanted)
    planned[group] = max(planned[group], most)
    fresh = len(wanted) - there
    return most - fresh, fresh


def segments_of(thinking: Thinking, info: ModelInfo) -> int:
    """How many requests one draw takes at most: more than one where a budget is forced by continuing a prefix."""
    if info.forced is None or not thinking.budget:
        return 1
    return 2 + (thinking.max_extensions if thinking.at_limit is AtLimit.EXTEND else 0)


def draw_bound(info: ModelInfo, draw: DrawConfig, problem: Problem, cap: int, *, priced: bool) -> Amounts:
    """The most that one whole draw with `cap` tokens of output can use, each of its requests sent once."""
    thinking = draw.thinking
    one = call_bound(info, draw_request(draw, info, problem.messages, 0, cap), priced=priced)
    forced, segments = info.forced, segments_of(thinking, info)
    if forced is None or thinking.budget is None:
        return one
    markers = sum(len(text.encode()) for text in (forced.open, forced.close, forced.skip, forced.wait)) * segments
    thoughts = _BYTES_PER_TOKEN * thinking.budget * (segments - 1)
    # Its requests share the cap, so the output does not grow with their number.
    output_tokens = one.output_tokens + info.thinking.budget_slack * (segments - 1)
    return _sized(info, one.input_tokens * segments + thoughts + markers, output_tokens, segments, priced=priced)


def score_bound(cell: Cell, problem: Problem, cap: int, *, priced: bool) -> Amounts:
    """The most that a verifier's call about a candidate of `cap` tokens can use."""
    verifier, info = cell.config.verifier, (cell.verifier_model or cell.model).info
    if verifier is None or isinstance(verifier, LocalVerifier):
        return Amounts()
    one = call_bound(info, judge_request(verifier, info, first_judged(verifier, problem), seed=cell.config.seed), priced=False)
    bound = _sized(info, one.input_tokens + _BYTES_PER_TOKEN * cap, one.output_tokens, 1, priced=priced)
    return replace(bound, verifier_calls=1)


def ask_bound(steps: Sequence[_Step], problem: Problem, *, priced: bool) -> Amounts:
    """The most that a request which the strategy words itself can use: twice the question, and twice as much text as a draw may write."""
    dearest = Amounts()
    for step in steps:
        info, one = step.model.info, draw_bound(step.model.info, step.draw, problem, step.cap, priced=priced)
        bound = _sized(info, 2 * one.input_tokens + 2 * _BYTES_PER_TOKEN * step.cap, one.output_tokens, one.calls, priced=priced)
        dearest = Amounts(**{name: max(getattr(dearest, name), getattr(bound, name)) for name in _BOUND})
    return dearest


def _sized(info: ModelInfo, input_tokens: int, output_tokens: int, calls: int, *, priced: bool) -> Amounts:
    usd = prices.upper_bound(info.price, input_tokens, output_tokens, time.time()) if priced else None
    return Amounts(calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd or Decimal(0))


def _expected(
    cell: Cell, most: Most, steps: Sequence[_Step], fresh: Sequence[int], scores: int, bound: Amounts, means: Means
) -> Amounts | None:
    """What the new draws and scores will use, by the means of their like; None where there is nothing like them."""
    info, judge, config = cell.model.info, (cell.verifier_model or cell.model).info, cell.config
    share = means.share_drawn(info, config.thinking, config.strategy.label, most.draws * len(steps))
    total = Amounts()
    asked = [(one.model.info, means.draw(one.model.info, one.draw.thinking), count) for one, count in zip(steps, fresh, strict=True)]
    for model, mean, count in [*asked, (judge, means.score(judge), scores)]:
        if not count:
            continue
        if mean is None:
            return None
        total = add(total, _mean_times(model, mean, count * share))
    return _smaller(total, bound)


def _mean_times(info: ModelInfo, mean: tuple[float, float, float, float], count: float) -> Amounts:
    calls, input_tokens, cached, output_tokens = mean
    usage = Usage(round(input_tokens), round(output_tokens), cached_input_tokens=round(cached))
    usd = prices.cost(info.price, usage, time.time()) if prices.has_price(info.price) else None
    return Amounts(
        calls=round(calls * count),
        input_tokens=round(input_tokens * count),
        output_tokens=round(output_tokens * count),
        usd=(usd or Decimal(0)) * Decimal(str(count)),
    )


def _times(amounts: Amounts, count: int) -> Amounts:
    return Amounts(**{name: getattr(amounts, name) * count for name in _BOUND})


def _smaller(left: Amounts, right: Amounts) -> Amounts:
    return Amounts(**{name: min(getattr(left, name), getattr(right, name)) for name in _BOUND})


def _sum(amounts: Sequence[Amounts | None]) -> Amounts | None:
    total = Amounts()
    for one in amounts:
        if one is None:
            return None
        total = add(total, one)
    return total


def _within(amounts: Amounts | None, limits: Limits, spent: Amounts) -> Amounts | None:
    return None if amounts is None else _within_known(amounts, limits, spent)


def _within_known(amounts: Amounts, limits: Limits, spent: Amounts) -> Amounts:
    """What of `amounts` fits into what `limits` leave after `spent`."""
    fits = {}
    for name in _BOUND:
        value, limit = getattr(amounts, name), getattr(limits, name)
        fits[name] = value if limit is None else min(value, max(type(value)(0), limit - getattr(spent, name)))
    return Amounts(**fits)
