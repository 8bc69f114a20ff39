"""Scheduling: give every job to a machine that can do it, within the hours of each machine.

A state is the jobs that are assigned, the jobs that remain, and the hours that each machine has left. A move assigns one job: `C -> M2`.
What cannot be carried out is refused at once; that what remains cannot fit any more is proven by counting hours, before any of it is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import JSON
from ttc_eval.tasks.base import IllegalMove, Verdict

_MOST_MACHINES = 8
_PAIR = re.compile(r"(?:assign\s+)?(?:job\s+)?(\w{1,20})\s*(?:->|→|⇒|:|=|\bto\b)\s*(?:machine\s+)?(\w{1,20})", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*(?:[,;]\s*(?:and\s)?|\n\s*(?:[-*•]\s)?|\band\b)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Job:
    """What has to be done: how many hours it takes, and what a machine must have for it."""

    name: str
    hours: int
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Machine:
    """What can do jobs: for how many hours in all, and what it has."""

    name: str
    hours: int
    has: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """Who does what so far: `assigned` maps the names of jobs to those of machines, in the order of the jobs."""

    jobs: tuple[Job, ...]
    machines: tuple[Machine, ...]
    assigned: tuple[tuple[str, str], ...] = ()

    @property
    def remaining(self) -> tuple[Job, ...]:
        """The jobs that nobody does yet."""
        done = {job for job, _ in self.assigned}
        return tuple(job for job in self.jobs if job.name not in done)

    @property
    def rooms(self) -> dict[str, int]:
        """Hours that each machine has left."""
        hours = {job.name: job.hours for job in self.jobs}
        room = {machine.name: machine.hours for machine in self.machines}
        for job, machine in self.assigned:
            room[machine] -= hours[job]
        return room

    @property
    def key(self) -> str:
        """The jobs that remain and the hours that are left: who did what before makes no difference to what can follow."""
        room = self.rooms
        return f"{' '.join(job.name for job in self.remaining)} | {' '.join(str(room[machine.name]) for machine in self.machines)}"

    @property
    def moves_left(self) -> int:
        """One for each job that remains."""
        return len(self.remaining)

    @property
    def terminal(self) -> bool:
        """Whether every job is assigned."""
        return not self.remaining

    @property
    def solved(self) -> bool:
        """An illegal assignment is refused, so one that is whole is valid."""
        return self.terminal

    def moves(self) -> Iterator[tuple[str, ScheduleState]]:
        """Every remaining job with every machine that can still take it."""
        room = self.rooms
        for job in self.remaining:
            for machine in self.machines:
                if _refusal(job, machine, room[machine.name]) is None:
                    yield f"{job.name} -> {machine.name}", self._with(job.name, machine.name)

    def play(self, move: str) -> ScheduleState:
        """The state after `JOB -> MACHINE`; what follows in brackets is the model's own note and is not read."""
        found = _PAIR.fullmatch(re.sub(r"\s*\(.*|\.$", "", move.strip()))
        if found is None:
            raise IllegalMove("a move is written JOB -> MACHINE")
        job, machine = _named(self.jobs, found[1]), _named(self.machines, found[2])
        if job is None or machine is None:
            raise IllegalMove(f"there is no job {found[1]}" if job is None else f"there is no machine {found[2]}")
        if job not in self.remaining:
            raise IllegalMove(f"{job.name} is assigned already, to {dict(self.assigned)[job.name]}")
        refusal = _refusal(job, machine, self.rooms[machine.name])
        if refusal is not None:
            raise IllegalMove(refusal)
        return self._with(job.name, machine.name)

    def _with(self, job: str, machine: str) -> ScheduleState:
        order = [one.name for one in self.jobs]
        pairs = sorted((*self.assigned, (job, machine)), key=lambda pair: order.index(pair[0]))
        return ScheduleState(self.jobs, self.machines, tuple(pairs))

    def bound(self) -> str | None:
        """Some set of machines is the only one that can take certain remaining jobs, and has fewer hours left than they take together."""
        room = self.rooms
        takers = {job: frozenset(one.name for one in self.machines if _refusal(job, one, room[one.name]) is None) for job in self.remaining}
        for size in range(len(self.machines) + 1):
            for names in combinations([machine.name for machine in self.machines], size):
                bound_to = [job for job, able in takers.items() if able <= set(names)]
                work, left = sum(job.hours for job in bound_to), sum(room[name] for name in names)
                if work > left:
                    whom = ", ".join(names) or "no machine"
                    return f"{', '.join(job.name for job in bound_to)}: {work} h that fit on {whom} alone, where {left} h are left"
        return None

    def render(self) -> str:
        """Three lines: what is assigned, what remains, and the hours left."""
        room = self.rooms
        remaining = "; ".join(_job_text(job) for job in self.remaining) or "none"
        left = "; ".join(f"{one.name} {room[one.name]} h{_listed(', has ', one.has)}" for one in self.machines)
        return f"Assigned: {_pairs_text(self.assigned) or 'none'}\nRemaining: {remaining}\nHours left: {left}"

    def answer(self) -> str:
        """`A -> M1, B -> M2`, in the order of the jobs."""
        return _pairs_text(self.assigned)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The task. `given` holds `jobs` (each with name, hours, needs) and `machines` (each with name, hours, has)."""

    name: ClassVar[str] = "schedule"
    moves_are: ClassVar[str] = "JOB -> MACHINE, for one of the remaining jobs and a machine that can take it"

    def start(self, given: JSON) -> ScheduleState:
        """Nothing is assigned."""
        jobs = tuple(Job(*_entry(one, "jobs", "needs")) for one in _entries(given, "jobs"))
        machines = tuple(Machine(*_entry(one, "machines", "has")) for one in _entries(given, "machines"))
        for what, names in (("jobs", [one.name for one in jobs]), ("machines", [one.name for one in machines])):
            if len({name.casefold() for name in names}) < len(names):
                raise UserError(f"answer.task=schedule: two {what} have the same name: {', '.join(names):.80}")
        if len(machines) > _MOST_MACHINES:
            raise UserError(f"answer.task=schedule: {len(machines)} machines; {_MOST_MACHINES} is the most")
        return ScheduleState(jobs, machines)

    def read(self, given: JSON, shown: str) -> ScheduleState:
        """The state whose first line is that of `shown`, which must then be the whole of it."""
        state = self.start(given)
        pairs = shown.partition("\n")[0].removeprefix("Assigned: ")
        try:
            for pair in [] if pairs == "none" else pairs.split(", "):
                state = state.play(pair)
        except IllegalMove as illegal:
            raise ValueError(str(illegal)) from None
        if state.render() != shown:
            raise ValueError("its lines contradict each other")
        return state

    def check(self, given: JSON, answer: str) -> Verdict:
        """Whether every job is assigned once, to a machine that can do it, and no machine works longer than its hours."""
        pairs, state = _pairs(answer), self.start(given)
        if pairs is None:
            return Verdict(False, "it is not a list of JOB -> MACHINE")
        for job, machine in pairs:
            try:
                state = state.play(f"{job} -> {machine}")
            except IllegalMove as illegal:
                return Verdict(False, str(illegal))
        if not state.terminal:
            return Verdict(False, f"nobody does {', '.join(job.name for job in state.remaining)}")
        return Verdict(True, "every job is assigned and every machine keeps to its hours")

    def canonical(self, answer: str) -> str | None:
        """The pairs in capital letters, in the order of the jobs' names."""
        pairs = _pairs(answer)
        return None if pairs is None else _pairs_text(sorted((job.upper(), machine.upper()) for job, machine in pairs))

    def find(self, text: str) -> str | None:
        """The list of pairs that `text` begins with."""
        text = re.sub(r"^[-*•]\s+", "", text[:2000].strip(" \n\t$*_`"))
        end = place = 0
        while (pair := _PAIR.match(text, place)) is not None:
            end = pair.end()
            between = _BETWEEN.match(text, end)
            if between is None:
                break
            place = between.end()
        return text[:end] or None


def _refusal(job: Job, machine: Machine, room: int) -> str | None:
    """Why the machine, with `room` hours left, cannot take the job; None when it can."""
    if not job.needs <= machine.has:
        return f"{job.name} needs {', '.join(sorted(job.needs - machine.has))}, which {machine.name} does not have"
    if job.hours > room:
        return f"{job.name} takes {job.hours} h, and {machine.name} has {room} h left"
    return None


def _named(among: tuple[Any, ...], name: str) -> Any:
    return next((one for one in among if one.name.casefold() == name.casefold()), None)


def _pairs(answer: str) -> list[tuple[str, str]] | None:
    texts = [text for text in _BETWEEN.split(answer.strip().rstrip(".")[:2000]) if text]
    found = [_PAIR.fullmatch(text) for text in texts]
    if not found:
        return None
    return None if None in found else [(pair[1], pair[2]) for pair in found if pair is not None]


def _pairs_text(pairs: Any) -> str:
    return ", ".join(f"{job} -> {machine}" for job, machine in pairs)


def _job_text(job: Job) -> str:
    return f"{job.name} {job.hours} h{_listed(', needs ', job.needs)}"


def _listed(before: str, words: frozenset[str]) -> str:
    return before + " and ".join(sorted(words)) if words else ""


def _entries(given: JSON, column: str) -> list[Any]:
    found = given.get(column)
    if not isinstance(found, list) or not found:
        raise UserError(f"answer.task=schedule: dataset.given must name a column {column!r} that lists them; found {found!r:.60}")
    return found


def _entry(entry: Any, column: str, words: str) -> tuple[str, int, frozenset[str]]:
    if isinstance(entry, Mapping):
        name, hours, listed = entry.get("name"), entry.get("hours"), entry.get(words) or []
        if isinstance(name, str) and re.fullmatch(r"\w{1,20}", name) and type(hours) is int and hours >= 0 and isinstance(listed, list):
            return name, hours, frozenset(str(word) for word in listed)
    raise UserError(
        f"answer.task=schedule: each of {column} needs a name of letters and digits, whole hours, and {words}; found {entry!r:.80}"
    )
