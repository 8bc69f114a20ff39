"""What one row of a study says, for a reader: ids resolved, calls read, cuts explained. Pure but for the queries of `found`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from ttc_eval.errors import UserError
from ttc_eval.exchange import response_of
from ttc_eval.records import CallStop
from ttc_eval.shown import unknown
from ttc_eval.thinking import shown
from ttc_eval.truncation import cut_of

if TYPE_CHECKING:
    from ttc_eval.study import Study

_LISTED = 12
_IDS = {
    "problem": "SELECT problem_id AS id FROM problems",
    "call": "SELECT call_id AS id FROM calls",
    "solution": "SELECT cell_id || ':' || problem_id AS id FROM solutions",
    "candidate": "SELECT cell_id || ':' || problem_id || '#' || position AS id FROM candidates",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What an id names: `kind` is problem, solution, candidate or call; `id` is the whole id."""

    kind: str
    id: str

    @property
    def cell_id(self) -> str:
        """The cell of a solution or candidate."""
        return self.id.partition(":")[0]

    @property
    def problem_id(self) -> str:
        """The problem of a problem, solution or candidate."""
        rest = self.id if self.kind == "problem" else self.id.partition(":")[2]
        return rest.rpartition("#")[0] if self.kind == "candidate" else rest

    @property
    def position(self) -> int:
        """The place of a candidate in its run."""
        return int(self.id.rpartition("#")[2])


def found(study: Study, given: str) -> Found:
    """The one thing in a study that `given` names, whole or by its beginning (of a solution's id, by the beginnings of both parts).

    Raises `UserError` when there is none, or lists those that there are.
    """
    union = " UNION ALL ".join(f"SELECT '{kind}' AS kind, id FROM ({query})" for kind, query in _IDS.items())
    cell, colon, rest = given.partition(":")
    # A problem's id may hold a colon as well, so both readings count.
    where = "starts_with(id, $1)" + (" OR (kind IN ('solution', 'candidate') AND regexp_matches(id, $2))" if colon else "")
    pattern = f"^{_escaped(cell)}[^:]*:{_escaped(rest)}"
    rows = study.sql(f"SELECT kind, id FROM ({union}) WHERE {where}", [given, pattern] if colon else [given]).to_dict("records")
    named = [Found(row["kind"], row["id"]) for row in rows]
    exact = [one for one in named if one.id == given]
    # The beginning of a candidate's id is its solution's; without a # the solution is meant. The same for a bare cell or problem.
    wanted = exact or [one for one in named if "#" in given or one.kind != "candidate"]
    if len(wanted) == 1:
        return wanted[0]
    if not wanted:
        raise UserError(
            f"{given}: this study has no problem, solution (cell:problem), candidate (cell:problem#position) or call of that id"
        )
    listed = "\n".join(f"  {one.kind:9} {one.id}" for one in sorted(wanted, key=lambda one: (one.kind, one.id))[:_LISTED])
    more = f"\n  … and {len(wanted) - _LISTED} more" if len(wanted) > _LISTED else ""
    raise UserError(f"{given}: {len(wanted)} things begin so; give more of one of these ids:\n{listed}{more}")


def _escaped(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "_-" else f"\\{letter}" if letter.isascii() else letter for letter in text)


def thinking_of(call: Mapping[str, Any]) -> str:
    """The thinking of a `calls` row as a reader may be shown it; "not disclosed" for thinking that is billed and not shown."""
    text, tokens = _value(call, "thinking_text"), None if unknown(call["reasoning_tokens"]) else int(call["reasoning_tokens"])
    asked = _request(call).get("thinking") or ["off"]
    if text is None and tokens is None and asked[0] != "off" and call["status"] == "ok":
        # It was asked to think, shows no text and reports no count: nothing says that it did not.
        return "not disclosed (its tokens are not reported)"
    return shown(text, tokens)


def cut_advice(call: Mapping[str, Any]) -> str | None:
    """What to do about a call whose answer its cap cut; None when it was not cut."""
    row: dict[str, Any] = {name: None if unknown(value) else value for name, value in call.items()}
    response = response_of({**row, "token_logprobs": None, "top_logprobs": None, "blocks": None})
    if response is None or response.stop not in (CallStop.MAX_TOKENS, CallStop.CONTEXT_FULL) or row["answer_text"] is None:
        return None
    cut = cut_of(response, int(row["max_output_tokens"]), row["requested_budget"])
    return None if cut is None else cut.advice


def conversation(call: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The turns that a call sent, with the assistant text that it continues as the last."""
    request = _request(call)
    turns = [(str(turn[0]), str(turn[1])) for turn in request.get("messages", [])]
    return [*turns, ("assistant (continued)", request["prefix"])] if request.get("prefix") else turns


def usage_lines(call: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Tokens, cost and seconds of a call, in words; unknown is said, never 0."""
    parts = [
        ("input", _count(call, "input_tokens", "tokens")),
        ("of it cached", _count(call, "cached_input_tokens", "tokens")),
        ("of it written to the cache", _count(call, "cache_write_tokens", "tokens")),
        ("output", _count(call, "output_tokens", "tokens")),
        ("of it reasoning", _count(call, "reasoning_tokens", "tokens")),
        ("counted by", str(call["usage_source"])),
        ("cap", _count(call, "max_output_tokens", "tokens")),
        ("thinking budget", _count(call, "requested_budget", "tokens")),
        ("cost", "unknown" if unknown(call["cost_usd"]) else f"${float(call['cost_usd']):.6f} ({call['price_version']})"),
        ("first token", _seconds(call, "first_token_s")),
        ("whole", _seconds(call, "latency_s")),
    ]
    optional = ("of it cached", "of it written to the cache", "thinking budget")
    return [(name, text) for name, text in parts if not (name in optional and text == "unknown")]


def ids(value: Any) -> Sequence[str]:
    """A column of ids as JSON."""
    return orjson.loads(value) if isinstance(value, str | bytes) else list(value)


def _request(call: Mapping[str, Any]) -> dict[str, Any]:
    found_: dict[str, Any] = orjson.loads(call["request"])
    return found_


def _value(row: Mapping[str, Any], name: str) -> Any:
    return None if unknown(row[name]) else row[name]


def _count(row: Mapping[str, Any], name: str, unit: str) -> str:
    return "unknown" if unknown(row[name]) else f"{int(row[name]):,} {unit}"


def _seconds(row: Mapping[str, Any], name: str) -> str:
    return "unknown" if unknown(row[name]) else f"{float(row[name]):.3f} s"
