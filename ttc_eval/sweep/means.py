"""What draws have used so far, as means over a study: what to expect of the like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from ttc_eval.models.base import ModelInfo
from ttc_eval.store import reading
from ttc_eval.thinking import Thinking

Mean = tuple[float, float, float, float]  # calls, input tokens, cached input tokens and output tokens of one draw or score

# Segments of one draw share pool, question and index. Failed calls are left out, and so are those whose usage is not known.
_DRAWS = """
    WITH known AS (
        SELECT request->>'$.endpoint' AS endpoint, request->>'$.model' AS asked, role, request->>'$.thinking' AS thinking, pool, draw,
               CASE WHEN role = 'generate' THEN request->>'$.messages' ELSE call_id END AS one,
               input_tokens, coalesce(cached_input_tokens, 0) AS cached_input_tokens, output_tokens
        FROM calls WHERE status = 'ok' AND input_tokens IS NOT NULL AND output_tokens IS NOT NULL
    ), draws AS (
        SELECT endpoint, asked, role, thinking, count(*) AS n, sum(input_tokens) AS input, sum(cached_input_tokens) AS cached,
               sum(output_tokens) AS output
        FROM known GROUP BY endpoint, asked, role, thinking, pool, draw, one)
    SELECT endpoint, asked, role, thinking, avg(n), avg(input), avg(cached), avg(output), count(*)
    FROM draws GROUP BY endpoint, asked, role, thinking"""
_ATTEMPTS = """
    SELECT c.endpoint, c.thinking_label, c.strategy_label, avg(s.attempts) FROM solutions s JOIN cells c USING (cell_id)
    WHERE s.stop_reason <> 'error' GROUP BY ALL"""


@dataclass(frozen=True, slots=True)
class Means:
    """Means of stored draws; empty where nothing is stored.

    Attributes:
        draws: how many draws the means are taken over, by endpoint, model, role and thinking as JSON.
    """

    calls: Mapping[tuple[str, str, str, str], Mean] = field(default_factory=dict)
    attempts: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    draws: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)

    def draw(self, info: ModelInfo, thinking: Thinking) -> Mean | None:
        """The mean draw of this model with this thinking; None when there is none."""
        return self.calls.get(_key(info, "generate", thinking))

    def score(self, info: ModelInfo) -> Mean | None:
        """The mean score by this model as a verifier; None when there is none."""
        return self.calls.get(_key(info, "verify", Thinking()))

    def count(self, info: ModelInfo, thinking: Thinking) -> int:
        """How many draws `draw` is the mean of."""
        return self.draws.get(_key(info, "generate", thinking), 0)

    def share_drawn(self, info: ModelInfo, thinking: Thinking, strategy: str, most: int) -> float:
        """The share of its `most` draws that the strategy takes before it stops, by what it did before; 1 when it has not run yet."""
        attempts = self.attempts.get((info.endpoint, thinking.label, strategy))
        return 1.0 if attempts is None or not most else min(1.0, attempts / most)


def read_means(database: Path) -> Means:
    """The means of a study; empty when there is no such file."""
    if not database.exists():
        return Means()
    with reading(database) as connection:
        rows = connection.execute(_DRAWS).fetchall()
        attempts = connection.execute(_ATTEMPTS).fetchall()
    keyed = {(str(row[0]), str(row[1]), str(row[2]), _normal(str(row[3]))): row[4:] for row in rows}
    return Means(
        calls={key: (float(values[0]), float(values[1]), float(values[2]), float(values[3])) for key, values in keyed.items()},
        attempts={(str(row[0]), str(row[1]), str(row[2])): float(row[3]) for row in attempts},
        draws={key: int(values[4]) for key, values in keyed.items()},
    )


def _normal(thinking: str) -> str:
    return orjson.dumps(orjson.loads(thinking)).decode()


def _key(info: ModelInfo, role: str, thinking: Thinking) -> tuple[str, str, str, str]:
    form = [thinking.mode.value, thinking.budget, thinking.effort, thinking.at_limit.value, thinking.max_extensions]
    return info.endpoint, info.model or info.name, role, orjson.dumps(form).decode()
