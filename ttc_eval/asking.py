"""What a session asks for, as requests: draws, scores, comparisons, and whatever else a strategy words itself. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ttc_eval.models.base import ModelInfo
from ttc_eval.records import CallStop, Message, Question, Request, Role, Sampling
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import Judge, LocalVerifier, PairwiseVerifier, Verifier


@dataclass(frozen=True, slots=True)
class DrawConfig:
    """The request configuration that all draws of a cell share, up to the question and the index.

    Attributes:
        answer_tokens: room for the visible answer; pool: names the configuration and its seed; verifier: scores.
        pools: name the same configuration under each other thinking that the strategy may ask for.
        larger: the same for the larger model of the cell, where it has one.
    """

    thinking: Thinking
    sampling: Sampling
    answer_tokens: int
    seed: int
    pool: str
    verifier: Judge | LocalVerifier | None = None
    pools: Mapping[Thinking, str] = field(default_factory=dict, hash=False)
    larger: DrawConfig | None = None

    def under(self, thinking: Thinking | None) -> DrawConfig:
        """This configuration with another thinking, which is another pool. Raises `KeyError` for one that was not prepared."""
        if thinking is None or thinking == self.thinking:
            return self
        return replace(self, thinking=thinking, pool=self.pools[thinking])

    @property
    def all_pools(self) -> tuple[str, ...]:
        """Every pool that its draws may come from."""
        return (self.pool, *self.pools.values(), *(() if self.larger is None else self.larger.all_pools))


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that a strategy words itself: a revision, a step of a search, a question about a candidate.

    Attributes:
        role: what it is for; draw: tells requests apart that are otherwise the same, as the index of a draw does.
        prefix: assistant text that the model continues; stop: texts that end its output, beside those of the cell.
        max_output_tokens: cap of its output; None: the thinking budget plus the room for the answer.
        thinking: None thinks as the cell does. temperature: None samples as the cell does.
        larger: asks the larger model of the cell.
        thinks: False asks with thinking off, as a verifier is asked; the strategy checks that the model takes that.
        depth: how deep in a search the node is that it makes, which is then taken out of the limits with it; None: it makes none.
    """

    messages: tuple[Message, ...]
    role: Role
    draw: int = 0
    prefix: str = ""
    stop: tuple[str, ...] = ()
    max_output_tokens: int | None = None
    thinking: Thinking | None = None
    temperature: float | None = None
    larger: bool = False
    depth: int | None = None
    thinks: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """What an `Ask` brought. The prefix is not repeated in `text`. `call_ids` are all its calls, in order.

    `output_tokens` are those of what it says, without its failed attempts; None where they are not known.
    """

    text: str
    thinking: str | None
    stop: CallStop
    complete: bool
    call_ids: tuple[str, ...]
    draw: int = 0
    token_logprobs: tuple[float, ...] | None = None
    top_logprobs: tuple[tuple[float, ...], ...] | None = None
    output_tokens: int | None = None


def draw_request(config: DrawConfig, info: ModelInfo, messages: tuple[Message, ...], index: int, cap: int) -> Request:
    """The request of draw `index` about `messages`, with `cap` tokens for all of its output."""
    return Request(
        model=info.model or info.name,
        endpoint=info.endpoint,
        messages=messages,
        thinking=config.thinking,
        sampling=config.sampling,
        answer_tokens=min(config.answer_tokens, cap),
        max_output_tokens=cap,
        seed=config.seed,
        draw=index,
    )


def ask_request(ask: Ask, config: DrawConfig, info: ModelInfo, cap: int) -> Request:
    """The request of `ask`, with `cap` tokens for all of its output."""
    sampling = replace(config.sampling, stop=(*ask.stop, *(text for text in config.sampling.stop if text not in ask.stop)))
    if ask.temperature is not None:
        sampling = replace(sampling, temperature=ask.temperature)
    return replace(draw_request(config, info, ask.messages, ask.draw, cap), sampling=sampling, role=ask.role, prefix=ask.prefix)


def score_request(
    verifier: Verifier,
    info: ModelInfo,
    question: Question,
    text: str | None,
    thinking: str | None,
    *,
    seed: int,
    cap: int | None = None,
    draw: int = 0,
) -> Request:
    """The request that asks the model of `info` for a score of `text`; `cap` lowers the room for the reply where a limit leaves less.

    `text` is None for a candidate that is still thinking. `draw` is that of the candidate, for a verifier whose scores belong to draws.
    """
    return replace(judge_request(verifier, info, verifier.messages(question, text, thinking), seed=seed, cap=cap), draw=draw)


def preference_request(
    verifier: PairwiseVerifier, info: ModelInfo, question: Question, first: str, second: str, *, seed: int, cap: int | None = None
) -> Request:
    """The request that asks the model of `info` which of two texts, shown in this order, is the better answer."""
    return judge_request(verifier, info, verifier.pair_messages(question, first, second), seed=seed, cap=cap)


def judge_request(judge: Judge, info: ModelInfo, messages: tuple[Message, ...], *, seed: int, cap: int | None = None) -> Request:
    """A verifier's request: thinking off, and room for its reply alone."""
    return Request(
        model=info.model or info.name,
        endpoint=info.endpoint,
        messages=messages,
        thinking=Thinking(),
        sampling=Sampling(temperature=judge.temperature),
        answer_tokens=judge.answer_tokens,
        max_output_tokens=judge.answer_tokens if cap is None else cap,
        role=Role.VERIFY,
        seed=seed,
    )
