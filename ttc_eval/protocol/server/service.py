"""What one server serves and within which bounds. No I/O."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from ttc_eval.errors import UserError
from ttc_eval.models.base import ModelInfo
from ttc_eval.records import Sampling
from ttc_eval.thinking import ThinkingMode


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the server.

    Attributes:
        body_bytes: of one request body.
        concurrency: requests answered at once; a further one gets 429.
        request_s: seconds for one request, its body included.
        grace_s: seconds that requests in flight have to end when the server is told to stop; then they are cut.
        heartbeat_s: seconds of silence after which a stream carries a comment, so that nobody takes it for dead.
    """

    body_bytes: int = 1024 * 1024
    concurrency: int = 16
    request_s: float = 300.0
    grace_s: float = 10.0
    heartbeat_s: float = 10.0

    def __post_init__(self) -> None:
        if self.body_bytes < 1 or self.concurrency < 1:
            raise UserError("--max-body-bytes and --max-concurrency: give 1 or more")
        if not (0 < self.request_s < 1e9 and 0 < self.heartbeat_s < 1e9 and 0 <= self.grace_s < 1e9):
            raise UserError("--request-seconds: give seconds above 0; --grace-seconds: give 0 or more")


@dataclass(frozen=True, slots=True)
class Service:
    """A model as it is served.

    Attributes:
        info: what is known of the model.
        max_budget: the largest thinking budget that is accepted; None accepts any that the model takes.
        wait_form: whether a used-up budget is shown by `[WAIT]` and `stop_sequence` instead of `budget_exceeded`.
        fails_at_budget: whether a model that takes a budget ends its response when the budget is used up. Of one that is
            made to answer instead, a response that used the whole budget counts as exhausted, and its text is dropped.
        sampling: how tokens are drawn where the request does not say.
        token: what clients must present; None asks for nothing.
    """

    info: ModelInfo
    max_budget: int | None = None
    wait_form: bool = False
    fails_at_budget: bool = True
    sampling: Sampling = field(default_factory=Sampling)
    bounds: Bounds = field(default_factory=Bounds)
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.max_budget is not None and self.max_budget < 1:
            raise UserError(f"--max-budget {self.max_budget}: give 1 or more tokens")

    @property
    def most(self) -> int | None:
        """The largest budget that both the server and the model take; None when neither says."""
        known = [limit for limit in (self.max_budget, self.info.thinking.max_budget) if limit is not None]
        return min(known, default=None)

    @property
    def thinks(self) -> bool:
        """Whether budgets can be served: the model takes them, and thinking tokens can be told from those of the answer."""
        support = self.info.thinking
        counted = self.info.forced is not None or support.reports_reasoning_tokens
        return ThinkingMode.BUDGET in support.accepts and counted


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`, a name or an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
