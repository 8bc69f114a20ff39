"""The log-probabilities of a stream's tokens, as providers list them: the sampled token's own, and those of the likeliest in its place."""

from __future__ import annotations

from collections.abc import Iterable


class TokenLogprobs:
    """Gathers them token by token, in their order. A token without a number is left out, with its list."""

    __slots__ = ("_sampled", "_top")

    def __init__(self) -> None:
        self._sampled: list[float] = []
        self._top: list[tuple[float, ...]] = []

    def add(self, sampled: object, top: Iterable[object] = ()) -> None:
        """Take in one token: its own value, and those of the likeliest tokens; what is no number is left out."""
        if _is_number(sampled):
            self._sampled.append(float(sampled))  # type: ignore[arg-type]
            self._top.append(tuple(float(value) for value in top if _is_number(value)))  # type: ignore[arg-type]

    def add_openai(self, tokens: object) -> None:
        """Take in a list of OpenAI's form: `logprob` and `top_logprobs` of each token, in chat completions and responses alike."""
        for token in tokens if isinstance(tokens, list) else ():
            if isinstance(token, dict):
                top = token.get("top_logprobs")
                entries = top if isinstance(top, list) else []
                self.add(token.get("logprob"), (entry.get("logprob") for entry in entries if isinstance(entry, dict)))

    @property
    def sampled(self) -> tuple[float, ...] | None:
        """Of the sampled tokens; None when there is none."""
        return tuple(self._sampled) or None

    @property
    def top(self) -> tuple[tuple[float, ...], ...] | None:
        """Of the likeliest tokens, a tuple for each sampled one; None when no token came with any."""
        return tuple(self._top) if any(self._top) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
