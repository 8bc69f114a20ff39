"""Text of others inside a judge's prompt: shown in blocks that it can neither close nor imitate. Pure.

A block is a line `[BEGIN NAME]`, the text, and a line `[END NAME]`. What a reader would take for such a line inside the text is marked as
quoted and stays readable: `[END CANDIDATE]` becomes `[quoted END CANDIDATE]`. It is looked for as it looks, not as it is spelled: in any
case and spacing, with anything that is no letter in between (invisible characters, accents, dots), unclosed, between any kind of square,
angle or curly brackets, in compatibility forms and small capitals, with digits for letters, with look-alikes of other scripts. The special
tokens of chat templates (`<|im_end|>`, `[INST]`, `</s>`) are taken apart as well: some servers obey them wherever they stand.

Source: Toloka/tolokaforge, issue 1607 (a candidate that closes its own block).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_NAMES = ("candidate", "question", "reasoning", "data", "answer", "thinking", "response", "submission")
_QUOTED = "quoted "
# What digits and letters of other scripts are drawn like; j and l are drawn like i.
_LIKE = dict(zip("0134578jl", "oieastbii", strict=True)) | dict(
    zip("авсԁеєнһіїјкмпиорԛгѕтуѵшԝхӏαβϲδεηνικμορτυωχ", "abcdeehhiiikmnnopqrstuvwwxiabcdennikmoptuwx", strict=True)
)
# Scripts with letters that are drawn like Latin ones: among Latin letters, any of theirs may stand for any.
_DRAWN_ALIKE = frozenset({"CYRILLIC", "GREEK", "COPTIC", "CHEROKEE", "LISU", "ARMENIAN", "GEORGIAN", "DESERET", "OSAGE", "VAI"})
_ALONE_ENOUGH = frozenset({"LISU"})
_TOKEN = re.compile(
    r"<(?=[|｜][^|｜<>\s]{1,40}[|｜]>)|<(?=/?(?:s|bos|eos|start_of_turn|end_of_turn|think|thinking)>)|<(?=</?SYS>>)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])"
)


def block(name: str, text: str) -> str:
    """`text` between the markers of `name`, neither of which occurs in it."""
    begin, end = markers(name)
    return f"{begin}\n{harmless(text)}\n{end}"


def markers(name: str) -> tuple[str, str]:
    """The lines before and after the block `name`."""
    return f"[BEGIN {name}]", f"[END {name}]"


def shown(prompt: str, name: str) -> str | None:
    """The text in the block `name` of a prompt that was made with `block`; None when it has no such block."""
    begin, end = markers(name)
    start, stop = prompt.find(f"{begin}\n"), prompt.rfind(f"\n{end}")
    start += len(begin) + 1
    return prompt[start:stop] if len(begin) < start <= stop else None


def harmless(text: str) -> str:
    """`text` with everything that looks like a marker, or is a chat template's token, marked. A second time changes nothing."""
    text = without_tokens(text)
    places = [place for place in _openings(text) if not text.startswith(_QUOTED, place)]
    pieces = [text[start:stop] for start, stop in zip([0, *places], [*places, len(text)], strict=True)]
    return _QUOTED.join(pieces)


def without_tokens(text: str) -> str:
    """`text` with the special tokens of chat templates taken apart by a space after their first character."""
    return _TOKEN.sub(lambda found: f"{found[0]} ", text)


def _openings(text: str) -> list[int]:
    """The places in `text` right after each bracket that opens what looks like a marker."""
    if not any(_kind(character) == "[" for character in text):
        return []
    seen, places = _skeleton(text)
    found = []
    for match in _marker().finditer(seen):
        place, stop = places[match.start()], places[match.end(1) - 1]
        if "?" not in match[1] or _mixes_scripts(text[place : stop + 1]):
            found.append(place + 1)
    return found


def _skeleton(text: str) -> tuple[str, list[int]]:
    """What a reader sees of `text`: its letters a to z, `?` for one that may be any, and brackets; and where each stands in `text`."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        kind = _kind(character)
        letters += kind
        places += [place] * len(kind)
    return "".join(letters), places


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    """The letters a to z that a character looks like, `?` for any of them, `[` or `]`, or nothing."""
    if character.isascii():
        if character.isalnum():
            return _LIKE.get(character.lower(), character.lower())
        return "[" if character in "[{<" else "]" if character in "]})>" else ""
    category, name = unicodedata.category(character), unicodedata.name(character, "")
    if category in ("Ps", "Pe") and "PARENTHESIS" not in name:
        return "[" if category == "Ps" else "]"
    plain = unicodedata.normalize("NFKD", character).casefold()
    if plain[:1].isascii() and plain[:1].isalnum():
        return "".join(_kind(one) for one in plain if one.isascii())
    if plain[:1] in _LIKE:
        return _LIKE[plain[:1]]
    latin = re.search(r"(?:LATIN|INDICATOR SYMBOL) .*\b([A-Z])(?: WITH .*)?$", name)
    if latin is not None:
        return _LIKE.get(latin[1].lower(), latin[1].lower())
    return "?" if category[0] in "LN" and _script(name) in {"LATIN", *_DRAWN_ALIKE} else ""


@lru_cache(maxsize=1)
def _marker() -> re.Pattern[str]:
    """An opening bracket before BEGIN or END and a block's name, over a skeleton; group 1 is what makes it one."""

    def drawn(word: str) -> str:
        return "".join(f"[{_LIKE.get(letter, letter)}?]" for letter in word)

    verbs, names = "|".join(map(drawn, ("begin", "end"))), "|".join(map(drawn, _NAMES))
    return re.compile(rf"\[(?=([^\]]{{0,8}}?(?:{verbs})[^\]]{{0,6}}?(?:{names})))")


def _mixes_scripts(text: str) -> bool:
    """Whether letters of several scripts stand together, as in no word of one language; or those of one that can spell alone."""
    scripts = {_script(unicodedata.name(one, "")) for one in unicodedata.normalize("NFKD", text) if one.isalpha()}
    return len(scripts) > 1 or bool(scripts & _ALONE_ENOUGH)


def _script(name: str) -> str:
    return name.split(" ", 1)[0]
