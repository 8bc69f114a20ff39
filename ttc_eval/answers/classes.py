"""Equivalence classes of the answers to one problem: what votes together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

from ttc_eval.answers.contract import canonical, same_names
from ttc_eval.answers.math_checker import MathChecker
from ttc_eval.records import AnswerContract, ContractKind


class AnswerClasses:
    """Names the class of each answer to one problem. Thread-safe.

    A class is named after its first member. An answer joins the first class all of whose members it equals, since a
    tolerance or an omitted unit makes equality intransitive: `50 %` may join `0.5` or `50`, never tie them together.

    Args:
        known: names of classes that exist already, in their order, as when a sweep resumes.
        checker: the math checker to ask; the process's own by default.
    """

    def __init__(self, contract: AnswerContract, known: Iterable[str] = (), *, checker: MathChecker | None = None) -> None:
        self._contract = contract
        self._checker = checker
        self._classes: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()
        self._by_name = contract.kind is not ContractKind.MATH and contract.rel_tol <= 0 and contract.abs_tol <= 0
        for name in known:
            self._classes.setdefault(name, [name])
            self._names.setdefault(canonical(name, contract) or name, name)

    @property
    def names(self) -> tuple[str, ...]:
        """The classes seen so far, in order of appearance."""
        return tuple(self._classes)

    def classify(self, answer: str) -> str | None:
        """The name of the answer's class, a new one if need be; None when it is no valid answer.

        Microseconds for all kinds but `math`, which can take the checker's time limit for each class it is compared with.
        """
        key = canonical(answer, self._contract)
        return None if key is None else self._classify(key)

    async def aclassify(self, answer: str) -> str | None:
        """`classify` for an event loop: what may be slow runs in a thread."""
        key = canonical(answer, self._contract)
        if key is None or key in self._names:
            return None if key is None else self._names[key]
        if self._contract.kind is not ContractKind.MATH:
            return self._classify(key)
        return await asyncio.to_thread(self._classify, key)

    def _classify(self, key: str) -> str:
        with self._lock:
            if key not in self._names:
                self._names[key] = name = self._find(key)
                self._classes.setdefault(name, []).append(key)
            return self._names[key]

    def _find(self, key: str) -> str:
        if not self._by_name:
            for name, members in self._classes.items():
                if all(same_names(key, member, self._contract, checker=self._checker) for member in members):
                    return name
        return key
