"""`call_costs` on random small studies, against its rule written out: a call is billed once, to its first use, and to no replay."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import duckdb
import pytest

from ttc_eval.store.migrations import migrate

CELL = {
    "status": "finished",
    "config": "{}",
    "model": "m",
    "endpoint": "e",
    "simulated": True,
    "priced": True,
    "thinking_mode": "off",
    "thinking_label": "off",
    "strategy": "s",
    "strategy_label": "s",
    "strategy_params": "{}",
    "dataset": "d",
    "split": "t",
    "seed": 0,
    "n_planned": 2,
}


def insert(connection: duckdb.DuckDBPyConnection, table: str, **values: Any) -> None:
    names = ", ".join(f'"{name}"' for name in values)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})", list(values.values()))


@pytest.mark.parametrize("seed", range(25))
def test_a_call_is_billed_to_the_first_that_used_it_and_pruned_where_all_it_made_was_given_up(seed: int) -> None:
    rng, connection = random.Random(seed), duckdb.connect()
    migrate(connection, "study")
    sweeps = {f"sweep{i}": (float(started), rng.choice([None, None, "replay"])) for i, started in enumerate(rng.sample(range(9), 3))}
    for name, (started, kind) in sweeps.items():
        insert(connection, "sweeps", sweep_id=name, study="study", status="finished", started_at=started, kind=kind)
    cells = {f"cell{i}": (rng.choice(list(sweeps)), i) for i in range(rng.randint(1, 4))}
    for cell, (sweep, ordinal) in cells.items():
        insert(connection, "cells", cell_id=cell, sweep_id=sweep, ordinal=ordinal, **CELL)
    calls = {f"call{i}": rng.choice([None, 3]) for i in range(rng.randint(1, 8))}
    for i, (call, tokens) in enumerate(calls.items()):
        known = {"input_tokens": 1, "output_tokens": tokens, "reserved_input_tokens": 5, "reserved_output_tokens": 7}
        shape = {"pool": "p", "model": "m", "role": "generate", "draw": i, "segment": 0, "attempt": 1, "status": "ok", "request": "{}"}
        rest = {"usage_source": "provider", "started_at": 0.0, "latency_s": 1.0, "simulated": True}
        insert(connection, "calls", call_id=call, key=call, sweep_id=rng.choice(list(sweeps)), **shape, **known, **rest)
    users, made = defaultdict(list), defaultdict(list)
    for cell, (sweep, ordinal) in cells.items():
        for problem in ("p0", "p1"):
            for position, call in enumerate(rng.sample(list(calls), rng.randint(0, len(calls)))):
                charge = {"charged_calls": 1, "charged_input_tokens": 1, "charged_output_tokens": 2, "charged_usd": None}
                insert(connection, "uses", cell_id=cell, problem_id=problem, call_id=call, position=position, overshoot=False, **charge)
                users[call].append((sweeps[sweep][0], ordinal, problem, position, cell, sweeps[sweep][1]))
            for position in range(rng.randint(0, 4)):
                ids, pruned = rng.choices(list(calls), k=rng.randint(0, 2)), rng.choice([None, True, False])
                shape = {"draw": position, "depth": 0, "complete": True, "call_ids": json.dumps(ids), "pruned": pruned}
                insert(connection, "candidates", cell_id=cell, problem_id=problem, position=position, **shape)
                for call in ids:
                    made[cell, problem, call].append(bool(pruned))

    found = connection.execute("SELECT cell_id, problem_id, call_id, billed_calls, billed_output_tokens, pruned FROM call_costs").fetchall()

    assert len(found) == sum(len(each) or 1 for each in (users[call] for call in calls))
    for cell, problem, call, billed, tokens, pruned in found:
        first = min(users[call], default=None, key=lambda use: use[:4])
        pays = cell is None or (first is not None and first[4] == cell and first[2] == problem and first[5] != "replay")
        assert bool(billed) == pays
        assert tokens == ((7 if calls[call] is None else calls[call]) if pays else 0)
        assert pruned == (bool(made[cell, problem, call]) and all(made[cell, problem, call]))
