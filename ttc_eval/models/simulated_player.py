"""A simulated model that plays checkable tasks imperfectly, so that searches over states can be tried without a key.

It plays, proposes moves and judges states with stated skill. Everything that it says follows from its seed and the request's address. It
knows which states can be won, as no real model does; its rows and figures are marked *simulated*, and a gain measured on it is one of this
simulation.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import Connection, ModelInfo, PriceRef
from ttc_eval.records import CallStop, ContractKind, Extraction, Message, Problem, Request, Response, Timings, Usage, UsageSource, digest
from ttc_eval.tasks import IllegalMove, State, task_of, winnable
from ttc_eval.tasks.prompts import Outlook, asks_for_moves, state_shown
from ttc_eval.thinking import ThinkingMode, ThinkingSupport

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class SimulatedPlayer:
    """What is known of the simulated player.

    Attributes:
        skill: how much likelier it is, as a logarithm, to make or propose a move from which the task can still be solved than another legal
            move; 0 plays at random.
        habit: spread of its likings (standard deviation of the logarithm): in each state it likes some legal moves better than others,
            always the same ones, good or not. So its draws fail together, and the eighth move that it lists may be the first good one.
        slips: probability that a move is written wrong. In a whole solution it then gives up.
        insight: probability that its opinion of a state, sure or likely against impossible, is right. It has one opinion of each state.
        wavering: probability that one judgement departs from that opinion, so that asking several times helps against this alone.
        first_token_s, seconds_per_token: latency that is recorded; nothing is waited for.
    """

    skill: float = 2.5
    habit: float = 3.0
    slips: float = 0.05
    insight: float = 0.8
    wavering: float = 0.1
    first_token_s: float = 0.2
    seconds_per_token: float = 0.01
    seed: int = 0
    name: str = "simulated_player"
    max_concurrency: int = 64
    price: PriceRef = field(default_factory=PriceRef)
    answers: Mapping[tuple[Message, ...], Problem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(0 <= share <= 1 for share in (self.slips, self.insight, self.wavering)):
            raise UserError("model: slips, insight and wavering are probabilities, between 0 and 1")
        if not all(0 <= value <= 100 for value in (self.skill, self.habit)):
            raise UserError("model: skill and habit are logarithms, from 0 to 100")
        if not all(0 <= value < math.inf for value in (self.first_token_s, self.seconds_per_token)):
            raise UserError("model: first_token_s and seconds_per_token must be 0 or more")

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the hash of what it simulates: other settings never share draws."""
        shape = [self.skill, self.habit, self.slips, self.insight, self.wavering, self.first_token_s, self.seconds_per_token, self.seed]
        return ModelInfo(
            self.name,
            f"simulated-player:{digest(shape)}",
            ThinkingSupport(accepts=(ThinkingMode.OFF,)),
            max_concurrency=self.max_concurrency,
            simulated=True,
            price=self.price,
        )

    def with_answers(self, problems: Sequence[Problem]) -> SimulatedPlayer:
        """The same player, knowing `problems` beside those it knew. Raises `UserError` for a problem that it cannot play."""
        for problem in problems:
            if problem.contract.kind is not ContractKind.STATE:
                raise UserError("model=simulated_player: it plays data sets whose dataset.answer.kind is state, such as dataset=game24")
        return replace(self, answers={**self.answers, **{problem.messages: problem for problem in problems}})

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open."""
        yield _Playing(self)


@dataclass(frozen=True, slots=True)
class _Playing:
    model: SimulatedPlayer
    known: dict[str, dict[str, bool]] = field(default_factory=dict)
    liked: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        rng = random.Random(f"{self.model.seed}/{request.key}")
        text = self._said(request, rng)
        wanted = -(-len(text) // _BYTES_PER_TOKEN)
        output = min(wanted, request.max_output_tokens)
        seconds = self.model.first_token_s + output * self.model.seconds_per_token
        started = time.time()
        # The loop must turn, as it does for every real model.
        await asyncio.sleep(0)
        size = sum(len(message.content.encode()) for message in request.messages)
        usage = Usage(-(-size // _BYTES_PER_TOKEN), output, reasoning_tokens=0, source=UsageSource.COUNTED)
        stop = CallStop.END if output == wanted else CallStop.MAX_TOKENS
        timings = Timings(started, self.model.first_token_s, seconds)
        return Response(text[: output * _BYTES_PER_TOKEN], stop, usage, timings)

    def _said(self, request: Request, rng: random.Random) -> str:
        asked = request.messages[-1].content
        shown = state_shown(asked)
        if shown is None:
            problem = self.model.answers.get(request.messages)
            return self._solved(self._sure_of(problem), rng)
        # The longest problem that is quoted: one may be the beginning of another.
        quoted = [one for one in self.model.answers.values() if asked.startswith(one.messages[-1].content)]
        problem = self._sure_of(max(quoted, key=lambda one: len(one.messages[-1].content), default=None))
        state = task_of(problem.contract.task).read(problem.given, shown)
        count = asks_for_moves(asked)
        return self._judged(problem, state, rng) if count is None else "\n".join(self._moves(problem, state, rng, count))

    def _sure_of(self, problem: Problem | None) -> Problem:
        if problem is None:
            raise CallFailed("invalid_request", "the simulated player does not know this problem", retryable=False)
        return problem

    def _solved(self, problem: Problem, rng: random.Random) -> str:
        """A whole solution, move by move. It claims its end to be right, whether that is so or not."""
        state, lines = task_of(problem.contract.task).start(problem.given), list[str]()
        while not state.terminal:
            move = next(iter(self._moves(problem, state, rng, 1)), None)
            try:
                state = state.play(move or "")
            except IllegalMove:
                return "\n".join([*lines, "I see no way to go on.", "Answer: none"])
            lines.append(move or "")
        answer = state.answer()
        return answer if problem.contract.extraction is Extraction.WHOLE else "\n".join([*lines, f"Answer: {answer}"])

    def _moves(self, problem: Problem, state: State, rng: random.Random, count: int) -> list[str]:
        """Up to `count` different moves, each drawn from those that are left in proportion to how it is liked."""
        left = dict(self._liked(problem, state))
        said: list[str] = []
        while left and len(said) < count:
            [move] = rng.choices(list(left), weights=list(left.values()))
            del left[move]
            said.append(_slipped(move) if rng.random() < self.model.slips else move)
        return said

    def _liked(self, problem: Problem, state: State) -> dict[str, float]:
        """The weight of every legal move."""
        where = (problem.problem_id, state.key)
        if where not in self.liked:
            habit = random.Random(f"{self.model.seed}/{problem.problem_id}/{state.key}")
            good = {move: self._winnable(problem, after) for move, after in state.moves()}
            self.liked[where] = {
                move: math.exp(habit.gauss(0, self.model.habit) + self.model.skill * is_good) for move, is_good in good.items()
            }
        return self.liked[where]

    def _judged(self, problem: Problem, state: State, rng: random.Random) -> str:
        of_state = random.Random(f"{self.model.seed}/{problem.problem_id}/{state.key}/opinion")
        opinion = self._winnable(problem, state) is (of_state.random() < self.model.insight)
        if rng.random() < self.model.wavering:
            opinion = not opinion
        word = Outlook.IMPOSSIBLE if not opinion else Outlook.SURE if state.moves_left == 1 else Outlook.LIKELY
        return f"I have looked at what can be done from here.\n{word.value}"

    def _winnable(self, problem: Problem, state: State) -> bool:
        return winnable(state, self.known.setdefault(problem.problem_id, {}))


def _slipped(move: str) -> str:
    """`move` with its last number one too high, which mostly makes it illegal."""
    *_, last = [None, *re.finditer(r"\d+", move)]
    return f"{move}?" if last is None else f"{move[: last.start()]}{int(last[0]) + 1}{move[last.end() :]}"
