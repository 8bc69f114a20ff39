"""What can go wrong, by who has to act.

`UserError` is for what a user can get wrong: the command line shows its text and exits with code 2,
without a traceback. `CallFailed` is for one request that came to nothing. Everything else is a defect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttc_eval.records import Usage


class UserError(Exception):
    """A mistake that the user can mend. The text says what, where and what to do, in one or two lines."""


class CallFailed(Exception):
    """One dispatched request failed.

    Attributes:
        kind: what failed, a short stable word (`rate_limited`, `overloaded`, `server_error`, `timeout`,
            `connection`, `incomplete`, `invalid_request`, `authentication`, `credit`, `refused`, ...).
        retryable: whether the same request may succeed when it is sent again.
        retry_after: seconds the server asked to wait; None when it did not say.
        usage: what the failed request is known to have consumed; None when that is unknown.
        partial_text: answer text that had arrived before the failure. It is stored, never graded.
        thinking_text: thinking text that had arrived before the failure.
        http_status: status code of the reply; None when there was no reply.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        usage: Usage | None = None,
        partial_text: str = "",
        thinking_text: str = "",
        http_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after
        self.usage = usage
        self.partial_text = partial_text
        self.thinking_text = thinking_text
        self.http_status = http_status
