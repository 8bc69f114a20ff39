"""A reward endpoint on loopback, in the forms of vLLM and Text Embeddings Inference; what it answers is up to the test.

By default it rewards an answer by the digits in it, so that a test knows what to expect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.servers.plain import PlainServer, Sent, in_thread

Answer = Callable[[dict[str, Any], int], Any]


def json_reply(body: Any, **changes: Any) -> Sent:
    """A reply whose body is JSON, or the text itself where that is given."""
    text = body if isinstance(body, str) else json.dumps(body)
    return Sent(**{"pieces": (text.encode(),), "content_type": "application/json", **changes})


def text_of(body: Mapping[str, Any]) -> str:
    """The answer that a request is about."""
    return str(body["messages"][-1]["content"] if "messages" in body else body["inputs"][0][-1])


def reward_of(text: str) -> float:
    """What this server thinks of a text: its last number, in hundreds."""
    found = re.findall(r"\d+", text)
    return int(found[-1]) / 100 if found else -1.0


def reply_for(path: str, rewards: list[Any], read: int = 7) -> Any:
    """The body in the form that belongs to a path."""
    usage = {"prompt_tokens": read, "total_tokens": read, "completion_tokens": 0, "prompt_tokens_details": None}
    head = {"id": "r-1", "object": "list", "created": 1, "model": "m", "usage": usage}
    match path.rpartition("/")[2]:
        case "classify":
            return {**head, "data": [{"index": 0, "label": None, "probs": rewards, "num_classes": len(rewards)}]}
        case "pooling":
            return {**head, "data": [{"index": 0, "object": "pooling", "data": rewards}]}
        case _:
            return [[{"label": f"LABEL_{place}", "score": reward} for place, reward in enumerate(rewards)]]


class RewardServer(PlainServer):
    """`answer` gives a body, a `Sent`, or None for the reward by `reward_of`; it is called with the request's body and its number."""

    def __init__(self, answer: Answer | None = None) -> None:
        super().__init__()
        self._answer = answer

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any], number: int) -> Sent:
        """What `answer` says."""
        said = None if self._answer is None else self._answer(body, number)
        if isinstance(said, Sent):
            return said
        return json_reply(reply_for(path, [reward_of(text_of(body))]) if said is None else said)


@contextmanager
def rewarding(answer: Answer | None = None) -> Iterator[RewardServer]:
    """A server in a thread of its own, for a sweep in this one."""
    server = RewardServer(answer)
    with in_thread(server):
        yield server
