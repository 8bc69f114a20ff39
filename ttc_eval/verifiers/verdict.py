"""The verdict in a judge's reply. Pure; no reply makes it raise.

What has one meaning is read; everything else is invalid, and never becomes a number:

| reply | reading |
|---|---|
| JSON object anywhere in the text: fenced, with talk before and after it | read |
| several | the last one, where the judge speaks first and it ends the reply: what a judge quotes stands before its own verdict |
| several that differ: one begins the reply, two stand together, or more follows | invalid (`ambiguous`): the last may be a quotation |
| inside `<think>`, or before its end | no verdict |
| single quotes, a comma before the closing bracket | read, since they have one meaning |
| number as text (`"0.85"`) | read |
| NaN, infinity, true, null, a list, `85%`, `8/10`, `0,85` | invalid (`not_a_number`) |
| outside the scale | invalid (`out_of_range`), never clamped |
| the same key twice | invalid (`ambiguous`): parsers disagree about which one counts |
| an object that is cut off or broken, after the last whole one or around it | invalid (`unparsed`): that was the verdict |
| an object inside a list or inside another object | no verdict |
| more than 100,000 characters | invalid (`unparsed`): what is cut off may be what tells a verdict from a quotation |
| `GRADE: X` | read on the last line alone, begun or ended by it and not in quotes; two on that line are `ambiguous` |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttc_eval.verifiers.base import Reading

_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_PART = re.compile(rf"{_STRING}|[{{}}]", re.DOTALL)
_LENIENT = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_OPENS_OBJECT = re.compile(r"""\{\s*["']""")
_MARKS = " \t\r\n\v\f`*_~.$\0"
_MARKUP = re.escape(_MARKS)
_GRADE = re.compile(rf"""\bGRADE\b[{_MARKUP}]*:[{_MARKUP}]*(?P<quote>["']?)(?P<letter>[A-Za-z]+)?(?P=quote)""", re.IGNORECASE)
_THOUGHT = re.compile(r"\s*<(think(?:ing)?)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_NOTHING = re.compile(r"[\s`*\x00]*(?:</\w+>)?[\s`*\x00]*")
_BEFORE = re.compile(r"[\s`*\ufeff]*(?:json\b)?\s*", re.IGNORECASE)
_AFTER_OBJECT = re.compile(r"\}[\s`*]*(?:json\b)?\s*\Z", re.IGNORECASE)
_SAYS = re.compile(r"""[\w"'“”‘’«»„]""")
_BEGINS = re.compile(r"[{\[]")
_LONGEST_REPLY = 100_000  # characters
_LONGEST = 4_000  # characters of an object that is not strict JSON
_MOST_BROKEN = 100  # objects of a reply that cannot be read before it is given up


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys as they came, twice where they came twice."""


@dataclass(frozen=True, slots=True)
class Found:
    """The last verdict of a reply: what its key holds, or the `problem`; the `rationale`, where one was given; and its other fields."""

    value: Any = None
    rationale: str | None = None
    problem: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)


def read_score(reply: str, low: float = 0.0, high: float = 1.0) -> Reading:
    """The score in a reply, from the scale `low` to `high` onto 0 to 1."""
    found = last_verdict(reply, "score")
    if found.problem is not None:
        return Reading(None, found.rationale, found.problem)
    value = number(found.value)
    if value is None:
        return Reading(None, found.rationale, "not_a_number")
    if not low <= value <= high:
        return Reading(None, found.rationale, "out_of_range")
    return Reading((value - low) / (high - low) + 0.0, found.rationale)


def read_word(reply: str, key: str, words: dict[str, float]) -> Reading:
    """The score that stands for the word which `key` holds in a reply, in any case; another word is invalid (`unknown_word`)."""
    found = last_verdict(reply, key)
    if found.problem is not None:
        return Reading(None, found.rationale, found.problem)
    word = found.value.strip().casefold() if isinstance(found.value, str) else None
    if word not in words:
        return Reading(None, found.rationale, "unknown_word")
    return Reading(words[word], found.rationale)


def read_grade(reply: str, letters: dict[str, float]) -> Reading:
    """The score that stands for the letter of `GRADE: X` on the last line of a reply; another letter is invalid (`unknown_word`)."""
    *_, after_thought = _THOUGHT_ENDS.split(_spoken(reply))
    before, _, line = _without_end_tag(after_thought).rpartition("\n")
    grades = list(_GRADE.finditer(line))
    if not grades:
        return Reading(None, problem="unparsed")
    head, rest = line[: grades[0].start()], line[grades[-1].end() :]
    reason = f"{before}\n{head}".strip() or None
    if len(grades) > 1:
        return Reading(None, reason, "ambiguous")
    if _SAYS.search(head) and rest:
        return Reading(None, reason, "unparsed")
    if set(re.findall(r"\b[A-Z]\b", rest)) & set(letters):
        return Reading(None, reason, "ambiguous")
    letter = (grades[0]["letter"] or "").upper()
    return Reading(letters[letter], reason) if letter in letters else Reading(None, reason, "unknown_word")


def last_verdict(reply: str, key: str) -> Found:
    """What `key` holds in the last JSON object of `reply` that has it."""
    if len(reply) > _LONGEST_REPLY:
        return Found(problem="unparsed")
    reply = _spoken(reply)
    try:
        objects = list(_objects(reply))
    except RecursionError:
        return Found(problem="unparsed")
    verdicts = [one for one in objects if any(_same(name, key) for name, _ in one[0])]
    if not verdicts:
        return Found(problem="unparsed")
    last, start, end = verdicts[-1]
    if _mentions(reply[end:], key) or _THOUGHT_ENDS.search(reply, end):
        return Found(problem="unparsed")
    values = [value for name, value in last if _same(name, key)]
    reasons = [value for name, value in last if _same(name, "rationale", "reasoning", "reason") and isinstance(value, str)]
    rationale = reasons[0] if reasons else None
    same = all([value for name, value in pairs if _same(name, key)] == values for pairs, _, _ in verdicts)
    if len(values) != 1 or (_mentions(reply[:start], key) >= (len(verdicts) if same else 1) and not _is_own(reply, start, end)):
        return Found(rationale=rationale, problem="ambiguous")
    return Found(values[0], rationale, others={name: value for name, value in last if not _same(name, key)})


def number(value: Any) -> float | None:
    """A finite number, given as one or as the text of one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _without_end_tag(text: str) -> str:
    """`text` without a closing tag and markup at its end."""
    text = text.rstrip(_MARKS)
    before, _, tag = text.rpartition("</")
    return before.rstrip(_MARKS) if re.fullmatch(r"\w+>", tag) else text


def _spoken(reply: str) -> str:
    """`reply` without the reasoning that it begins with; nothing, where that has no end."""
    thought = _THOUGHT.match(reply)
    return reply if thought is None else reply[thought.end() :]


def _objects(text: str) -> Iterator[tuple[_Pairs, int, int]]:
    """The objects in `text` that stand in no other value, and where each begins and ends."""
    # Not strict: a line break inside a string has one meaning.
    decoder = json.JSONDecoder(object_pairs_hook=_Pairs, strict=False)
    place, unclosed, broken = 0, False, 0
    while broken < _MOST_BROKEN and (start := _BEGINS.search(text, place)) is not None:
        place = start.start()
        value, end = _value(decoder, text, place)
        if end is not None:
            # After something that was never closed, only what begins its line is known not to be inside of it.
            if isinstance(value, _Pairs) and not (unclosed and text[:place].rpartition("\n")[2].strip()):
                yield value, place, end
            place = end
        elif _OPENS_OBJECT.match(text, place):
            broken += 1
            closed = _end(text, place)
            unclosed = unclosed or closed is None
            place = place + 1 if closed is None else closed
        else:
            place += 1


def _value(decoder: json.JSONDecoder, text: str, place: int) -> tuple[Any, int | None]:
    """The value that begins at `place`, and its end; no end where there is none."""
    try:
        return decoder.raw_decode(text, place)
    except ValueError:
        pass
    end = _end(text, place) if _OPENS_OBJECT.match(text, place) else None
    if end is None:
        return None, None
    try:
        return decoder.decode(_LENIENT.sub(_strictly, text[place:end])), end
    except ValueError:
        return None, None


def _strictly(found: re.Match[str]) -> str:
    said = found[0]
    if said.startswith("'"):
        return json.dumps(said[1:-1].replace("\\'", "'")) if "\\" not in said.replace("\\'", "") else said
    return "" if said == "," else said


def _end(text: str, place: int) -> int | None:
    """Where the object that begins at `place` is closed, brackets in strings left aside; None when it is not."""
    depth = 0
    for part in _PART.finditer(text, place, place + _LONGEST):
        depth += {"{": 1, "}": -1}.get(part[0], 0)
        if depth == 0:
            return part.end()
    return None


def _mentions(text: str, key: str) -> int:
    """How often `key` stands in `text` as the key of an object, whole or broken."""
    return sum(1 for _ in re.finditer(rf"""["']\s*{re.escape(key)}\s*["']\s*:""", text, re.IGNORECASE))


def _is_own(reply: str, start: int, end: int) -> bool:
    """Whether what stands from `start` to `end` can only be the last word of a reply in which other verdicts come first.

    It is not when a judge's object begins the reply or ends right before it: then it may stand inside a string of that one.
    """
    begins = _OPENS_OBJECT.match(reply, _BEFORE.match(reply).end())  # type: ignore[union-attr]
    return not begins and not _AFTER_OBJECT.search(reply, 0, start) and _NOTHING.fullmatch(reply, end) is not None


def _same(name: str, *keys: str) -> bool:
    return name.strip().casefold() in keys
