"""Usage that is known for several calls together: one request that brought many samples, or a log that counts per problem.

Such usage is not divided among its calls: what one of them used is unknown. Where a strategy takes all of them it is charged the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class SharedUsage:
    """What `calls` calls used together. `group` names them; None is unknown. Tokens are counts, `usd` US dollars."""

    group: str
    calls: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: Decimal | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON values, for `usage_raw` of each of its calls."""
        usd = None if self.usd is None else float(self.usd)
        return {
            "shared_by": self.calls,
            "group": self.group,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "usd": usd,
        }


def shared_usage(raw: Mapping[str, Any] | None) -> SharedUsage | None:
    """What a call's `usage_raw` says of usage that it shares; None when it says nothing."""
    if not raw or "shared_by" not in raw or "group" not in raw:
        return None
    usd = raw.get("usd")
    known = None if usd is None else Decimal(str(usd))
    return SharedUsage(str(raw["group"]), int(raw["shared_by"]), raw.get("input_tokens"), raw.get("output_tokens"), known)


def with_shared_usage(solution: Mapping[str, Any], uses: Iterable[Mapping[str, Any]], shared: Mapping[str, SharedUsage]) -> dict[str, Any]:
    """A row of `solutions` whose charge counts the usage that its calls share, where it took all the calls that share it.

    Args:
        uses: its rows of `uses`; shared: by call id.
    """
    charged = [use for use in uses if not use["overshoot"]]
    groups = {found.group: found for use in charged if (found := shared.get(use["call_id"])) is not None}
    if not groups:
        return dict(solution)
    taken = {name: sum(getattr(shared.get(use["call_id"]), "group", None) == name for use in charged) for name in groups}
    if any(taken[name] != group.calls for name, group in groups.items()):
        return dict(solution)
    alone = [use for use in charged if use["call_id"] not in shared]
    totals = {
        f"charged_{name}": _sum([*(use[f"charged_{name}"] for use in alone), *(getattr(group, name) for group in groups.values())])
        for name in ("input_tokens", "output_tokens", "usd")
    }
    return {**solution, **totals}


def _sum(values: list[Any]) -> Any:
    return None if any(value is None for value in values) else sum(values)
