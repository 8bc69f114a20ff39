"""One turn of the lab model as a state machine over its tokens: thinking, budgets, `Wait`, stop strings and caps. No I/O.

The model opens its thinking itself, thinks, closes it, and answers. What the rules force on it (closing, `Wait`) is
output like any other, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttc_eval.lab.tokens import (
    ATTEMPT_BLOCK,
    CLOSE_ID,
    CONTEXT,
    END_ID,
    MAX_ATTEMPTS,
    QUESTION_BLOCK,
    THINK_ID,
    VOCABULARY,
    WAIT_ID,
    decode,
    next_position,
    positions,
)
from ttc_eval.records import CallStop
from ttc_eval.thinking import AtLimit


@dataclass(frozen=True, slots=True)
class Rules:
    """What bounds a turn.

    Attributes:
        max_output: cap of all output tokens, 1 or more.
        budget: cap of the thinking tokens of this output; None is no cap. With 0, thinking is closed as soon as it opens,
            whatever `at_limit` says.
        at_limit, max_extensions: see `ttc_eval.thinking`.
        stops: texts that end the answer, and also the thinking where the tokens before the output leave it open.
    """

    max_output: int
    budget: int | None = None
    at_limit: AtLimit = AtLimit.ANSWER
    max_extensions: int = 0
    stops: tuple[str, ...] = ()


@dataclass(slots=True)
class _Section:
    """Output tokens `start` to `end`, all thinking or all answer; `text` is set when a stop string cut it short."""

    thinking: bool
    start: int
    end: int | None = None
    text: str | None = None


class Turn:
    """A turn that is being written.

    Attributes:
        output: its tokens so far, marks and forced ones included.
        thought_tokens: how many of them stand strictly inside the thinking, `Wait` included.
        forced: the next token when the rules leave the model no choice.
        position: of the last token.
        stop: why the turn has ended; None while it goes on.
    """

    def __init__(self, before: Sequence[int], rules: Rules) -> None:
        """A turn after `before`: the question, and what is given of the turn. Raises ValueError when that fills the context."""
        self.rules = rules
        self.position = int(positions(before)[-1])
        self.output: list[int] = []
        self.thought_tokens = 0
        self.stop: CallStop | None = None
        self._room = CONTEXT - len(before)
        if self._room < 1:
            raise ValueError("the lab model's context is full")
        thinking = _left_open(before)
        self._stops_in_thinking = thinking
        self._sections = [_Section(thinking, 0)]
        self._tail = ""
        self._extensions = 0
        self._quiet = 0
        self.forced = self._next_forced()

    @property
    def thinking(self) -> str:
        """The thinking of the output so far, without its marks."""
        return self._text(thinking=True)

    @property
    def text(self) -> str:
        """The answer of the output so far."""
        return self._text(thinking=False)

    def take(self, sampled: int) -> int | None:
        """Add the next token, `sampled` or what the rules put in its place, and return it.

        None when the turn ended without a further token.
        """
        if sampled < THINK_ID and self._quiet > 0:
            return self._write_quietly(sampled)
        rules, section = self.rules, self._sections[-1]
        token = sampled if self.forced is None else self.forced
        if section.thinking and self.forced is None:
            if token == CLOSE_ID and self._extends():
                self._extensions += 1
                token = WAIT_ID
            elif token not in (CLOSE_ID, END_ID) and self.thought_tokens == rules.budget:
                self.stop = CallStop.BUDGET_EXCEEDED
                return None
        self.output.append(token)
        if section.thinking and token not in (CLOSE_ID, END_ID):
            self.thought_tokens += 1
        if token == END_ID:
            section.end = len(self.output) - 1
            self.stop = CallStop.END
            return token
        if rules.stops and self._stopped(section, token):
            self.stop = CallStop.STOP_SEQUENCE
        elif len(self.output) == rules.max_output:
            self.stop = CallStop.MAX_TOKENS
        if (token == THINK_ID and not section.thinking) or (token == CLOSE_ID and section.thinking):
            section.end = len(self.output) - 1
            self._sections.append(_Section(not section.thinking, len(self.output)))
            self._tail = ""
        self._advance(token)
        self.forced = self._next_forced()
        self._quiet = self._tokens_until_a_rule_applies()
        return token

    def _write_quietly(self, token: int) -> int:
        """`take` for most tokens: a character, well inside every limit."""
        self._quiet -= 1
        self.output.append(token)
        self.position += 1
        self.thought_tokens += self._sections[-1].thinking
        return token

    def _tokens_until_a_rule_applies(self) -> int:
        rules, thinking = self.rules, self._sections[-1].thinking
        if self.stop is not None or self.forced is not None or (rules.stops and (self._stops_in_thinking or not thinking)):
            return 0
        room = min(rules.max_output, self._room) - len(self.output) - 1
        if thinking and rules.budget is not None:
            room = min(room, rules.budget - self.thought_tokens - 1)
        return min(room, CONTEXT - 1 - self.position)

    def _advance(self, token: int) -> None:
        try:
            self.position = next_position(self.position, token)
        except ValueError:
            self.stop = self.stop or CallStop.CONTEXT_FULL
        # Marks move the position back, so positions alone do not bound the number of tokens.
        if len(self.output) >= self._room:
            self.stop = self.stop or CallStop.CONTEXT_FULL

    def _next_forced(self) -> int | None:
        rules = self.rules
        if not self._sections[-1].thinking or self.thought_tokens != rules.budget:
            return None
        return None if rules.at_limit is AtLimit.FAIL and rules.budget else CLOSE_ID

    def _extends(self) -> bool:
        rules = self.rules
        if rules.at_limit is not AtLimit.EXTEND or rules.budget is None or self._extensions == rules.max_extensions:
            return False
        # `Wait` is of use only when a token can follow it.
        fits = self.thought_tokens + 2 <= rules.budget
        return fits and (self.position - QUESTION_BLOCK) // ATTEMPT_BLOCK + 1 < MAX_ATTEMPTS

    def _stopped(self, section: _Section, token: int) -> bool:
        if section.thinking and not self._stops_in_thinking:
            return False
        self._tail += VOCABULARY[token]
        places = [self._tail.find(stop) for stop in self.rules.stops if stop in self._tail]
        if not places:
            return False
        section.text = self._tail[: min(places)]
        return True

    def _text(self, thinking: bool) -> str:
        return "".join(
            decode(self.output[part.start : part.end]) if part.text is None else part.text
            for part in self._sections
            if part.thinking is thinking
        )


def _left_open(tokens: Sequence[int]) -> bool:
    """Whether thinking was opened in `tokens` and not closed."""
    for token in reversed(tokens):
        if token in (THINK_ID, CLOSE_ID):
            return token == THINK_ID
    return False
