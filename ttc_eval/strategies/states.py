"""What the searches over explicit states share: how a tree of states grows, what a model says of a state, where such a search can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, ContractKind, Extraction, Role, ScoreKind, StopReason
from ttc_eval.session import Ask, LimitReached, Reply, Session
from ttc_eval.strategies.base import Setting
from ttc_eval.tasks import IllegalMove, State, task_of
from ttc_eval.tasks.prompts import Outlook, judge, outlook, proposals, propose


def check_state_search(name: str, setting: Setting) -> None:
    """Raise `UserError` where states cannot be searched: another kind of task, or a verifier that judges no states."""
    contract = setting.question.contract
    if contract.kind is not ContractKind.STATE:
        raise UserError(
            f"strategy={name}: it searches the states of a checkable task, and this data set's answers are of kind {contract.kind.value}; "
            "take one with dataset.answer.kind=state, such as dataset=game24"
        )
    if setting.verifier is not None and setting.verifier.kind is not ScoreKind.RULE:
        raise UserError(f"strategy={name}: only verifier=rule judges states; give that, or verifier=null")


def check_counts(**counts: int) -> None:
    """Raise `UserError` for the first option that is less than 1."""
    for option, value in counts.items():
        if value < 1:
            raise UserError(f"strategy.{option}={value}: give 1 or more")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A state that a search has entered; its `candidate` is what the store shows of it, none for the start."""

    state: State
    depth: int = 0
    candidate: Candidate | None = None


@dataclass(slots=True)
class Tree:
    """The states that one search has entered, each once, and what ended it.

    Every request for moves takes a node out of the limits, and so does every further state that its reply leads to, before anything is
    paid for it. A move that is illegal, leads to a state that was entered before, or to one that is provably lost, is charged with its
    call, stored with the reason, and shown as pruned.

    Attributes:
        moves: moves that are asked for at once; samples: requests for moves from one state; parallel: requests in flight.
        max_nodes: most nodes.
        accepted: the terminal state that the task's own check accepts, as a candidate.
        ended_by: the limit that was used up; too_deep: whether a state was left as it was because the limit of the depth was reached.
    """

    session: Session
    moves: int
    samples: int
    parallel: int
    max_nodes: int
    nodes: int = 0
    accepted: Candidate | None = None
    ended_by: StopReason | None = None
    too_deep: bool = False
    _seen: set[str] = field(default_factory=set)
    _asked: dict[str, int] = field(default_factory=dict)

    def start(self) -> Node:
        """The state of the question before the first move."""
        state = task_of(self.session.question.contract.task).start(self.session.question.given)
        self._seen.add(state.key)
        return Node(state)

    @property
    def nothing_left(self) -> StopReason:
        """Why a search stops that has no state left to go on from."""
        return StopReason.DEPTH_LIMIT if self.too_deep else StopReason.EXHAUSTED

    async def grow(self, nodes: Sequence[Node]) -> list[Node]:
        """The new states after the moves that the model proposes from `nodes`, in order, without those that are provably lost.

        Ends early with `accepted` or `ended_by` set.
        """
        wanted = [(node, sample) for node in nodes for sample in range(self.samples)]
        asked = wanted[: self.max_nodes - self.nodes]
        replies = await self._replies([self._proposal(node, self.moves, sample) for node, sample in asked])
        if len(asked) < len(wanted):
            self.ended_by = self.ended_by or StopReason.NODE_LIMIT
        grown: list[Node] = []
        for (node, _), reply in zip(asked, replies, strict=False):
            prepaid = True
            for move in proposals(reply.text, self.moves, complete=reply.complete):
                state = await self._legal(node, move, reply)
                if state is None:
                    continue
                if state.key in self._seen:
                    await self._give_up(node, move, reply, f"entered before: {state.render()}")
                    continue
                if not prepaid and not self._room(node.depth + 1):
                    await self._give_up(node, move, reply, f"not entered: {state.render()}")
                    continue
                prepaid = False
                self._seen.add(state.key)
                child = await self._entered(node, move, state, reply)
                if self.accepted is not None:
                    return grown
                grown += [] if child is None else [child]
        return grown

    async def follow(self, node: Node) -> Node | None:
        """The state after the one move that the model would make from `node`, whether it was entered before or not.

        None when that is illegal, lost, accepted or not paid for any more. Every call about a node is another sample.
        """
        if self.nodes >= self.max_nodes:
            self.ended_by = self.ended_by or StopReason.NODE_LIMIT
            return None
        shown = node.state.render()
        sample = self._asked[shown] = self._asked.get(shown, -1) + 1
        for reply in await self._replies([self._proposal(node, 1, sample)]):
            for move in proposals(reply.text, 1, complete=reply.complete):
                state = await self._legal(node, move, reply)
                return None if state is None else await self._entered(node, move, state, reply)
        return None

    async def outlooks(self, nodes: Sequence[Node], samples: int) -> list[list[Outlook]]:
        """What the model says of each state, asked `samples` times; a reply that is none of the three words is left out."""
        question = self.session.question
        task = task_of(question.contract.task)
        asks = [Ask(judge(question, task, node.state), Role.VERIFY, draw=sample) for node in nodes for sample in range(samples)]
        replies = await self._replies(asks)
        said = [outlook(reply.text) if reply.complete else None for reply in replies]
        groups = [said[place * samples : (place + 1) * samples] for place in range(len(nodes))]
        return [[one for one in group if one is not None] for group in groups]

    def _proposal(self, node: Node, moves: int, sample: int) -> Ask:
        question = self.session.question
        return Ask(propose(question, task_of(question.contract.task), node.state, moves), Role.STEP, draw=sample, depth=node.depth + 1)

    async def _replies(self, asks: Sequence[Ask]) -> tuple[Reply, ...]:
        taken = await self.session.ask_all(asks, parallel=self.parallel)
        self.nodes += sum(ask.depth is not None for ask in asks[: len(taken.found)])
        if taken.ended_by is StopReason.DEPTH_LIMIT:
            self.too_deep = True
        else:
            self.ended_by = self.ended_by or taken.ended_by
        return taken.found

    def _room(self, depth: int) -> bool:
        """Take a node, where the limits leave one."""
        try:
            if self.nodes < self.max_nodes:
                self.session.node(depth)
                self.nodes += 1
                return True
            reason = StopReason.NODE_LIMIT
        except LimitReached as limit:
            reason = limit.stop_reason
        self.ended_by = self.ended_by or reason
        return False

    async def _legal(self, node: Node, move: str, reply: Reply) -> State | None:
        try:
            return node.state.play(move)
        except IllegalMove as illegal:
            await self._give_up(node, move, reply, f"illegal: {illegal}")
            return None

    async def _give_up(self, node: Node, move: str, reply: Reply, content: str) -> None:
        self.session.prune(await self._noted(node, move, reply, content))

    async def _noted(self, node: Node, move: str, reply: Reply, content: str, answer: str | None = None) -> Candidate:
        text = move if answer is None else answer
        return await self.session.candidate(
            text,
            complete=answer is not None,
            partial=answer is None,
            parent=node.candidate,
            depth=node.depth + 1,
            content=content,
            reply=reply,
        )

    async def _entered(self, node: Node, move: str, state: State, reply: Reply) -> Node | None:
        """The node of a state that was paid for; None when it is provably lost, or the answer. Sets `accepted` for that."""
        question = self.session.question
        answer = None
        if state.terminal:
            answer = state.answer() if question.contract.extraction is Extraction.WHOLE else f"Answer: {state.answer()}"
        candidate = await self._noted(node, move, reply, state.render(), answer)
        try:
            lost = self.session.has_verifier and (await self.session.score(candidate)).value == 0
        except LimitReached as limit:
            self.ended_by = self.ended_by or limit.stop_reason
            return None
        if state.terminal and not lost:
            # Whatever a model or a value says: an end is valid when the task's own check accepts its answer to the problem as given.
            valid = candidate.votes and task_of(question.contract.task).check(question.given, candidate.answer or "").valid
            self.accepted, lost = (candidate, False) if valid else (None, True)
        if lost:
            self.session.prune(candidate)
        return None if lost or state.terminal else Node(state, node.depth + 1, candidate)


def mean_worth(said: Sequence[Outlook], worth: Mapping[Outlook, float]) -> float | None:
    """The mean worth of what was said of a state; None when nothing valid was: that is no opinion, not a bad one."""
    return sum(worth[one] for one in said) / len(said) if said else None
