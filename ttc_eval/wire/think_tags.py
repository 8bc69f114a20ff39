"""Thinking that a server leaves inside the answer, between two tags: split off while it streams. Pure.

A server that runs without a reasoning parser sends `<think>…</think>` as ordinary content, cut anywhere. Only a block at the very
start counts (white space may stand before it): a tag later on is text that the model wrote about tags. Nothing is added or lost, so
that thinking and answer, with their tags, are the content.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttc_eval.errors import UserError


@dataclass(frozen=True, slots=True)
class ThinkTags:
    """The tags of one model.

    `opened` is for a chat template that ends with the opening tag, so that only the closing one is ever sent (DeepSeek-R1 and the
    models distilled from it); the opening tag is then still taken off when it does come.
    """

    open: str = "<think>"
    close: str = "</think>"
    opened: bool = False

    def __post_init__(self) -> None:
        if not self.open.strip() or not self.close.strip():
            raise UserError("model.think_tags: open and close are the tags around the thinking; neither may be empty")


class TagSplitter:
    """Splits one reply. Feed it the pieces of content in order, then say that it has `end`ed.

    Attributes:
        thinking: pieces of thinking so far; text: pieces of answer so far.
    """

    __slots__ = ("_held", "_looking", "_marked", "_tags", "_thinks", "text", "thinking")

    def __init__(self, tags: ThinkTags) -> None:
        self.thinking: list[str] = []
        self.text: list[str] = []
        self._marked = False  # whether a tag has come at all
        self._tags = tags
        self._held = ""  # what may turn out to be the start of a tag
        self._looking = True  # the opening tag may still come
        self._thinks = tags.opened

    def feed(self, piece: str) -> None:
        """Take in a piece of content."""
        if not self._looking and not self._thinks:
            self.text.append(piece)
            return
        self._held += piece
        if self._looking:
            self._look_for_open()
        if not self._looking and self._thinks:
            self._look_for_close()

    def end(self, *, complete: bool) -> None:
        """End of the reply. `complete`: the model ended it by itself, so thinking that was never opened nor closed is an answer."""
        held, self._held = self._held, ""
        if held:
            (self.thinking if self._thinks else self.text).append(held)
        if complete and self._thinks and not self._marked:
            # It answered without thinking: its template had opened nothing this time.
            self.text, self.thinking = self.thinking, []
        self._looking = self._thinks = False

    def _look_for_open(self) -> None:
        tag, start = self._tags.open, self._held.lstrip()
        if tag.startswith(start) and len(start) < len(tag):
            return
        self._looking = False
        if start.startswith(tag):
            before = self._held[: len(self._held) - len(start)]
            if before:
                self.text.append(before)
            self._thinks, self._marked, self._held = True, True, start[len(tag) :]
        elif not self._thinks:
            self.text.append(self._held)
            self._held = ""

    def _look_for_close(self) -> None:
        tag, held = self._tags.close, self._held
        at = held.find(tag)
        if at >= 0:
            self._add(held[:at])
            self._marked, self._thinks, self._held = True, False, ""
            if held[at + len(tag) :]:
                self.text.append(held[at + len(tag) :])
            return
        keep = next((size for size in range(min(len(tag) - 1, len(held)), 0, -1) if held.endswith(tag[:size])), 0)
        self._add(held[: len(held) - keep])
        self._held = held[len(held) - keep :]

    def _add(self, piece: str) -> None:
        if piece:
            self.thinking.append(piece)
