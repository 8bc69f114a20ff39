"""A study under other prices: the same prices give the same cost, others follow from the stored calls, and unknown stays unknown."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.sweep.conftest import Outcome, Sweep, sweep
from ttc_eval.cli import main
from ttc_eval.commands.replay import parsed, pricing_of
from ttc_eval.errors import UserError
from ttc_eval.models.base import Price, PriceRef
from ttc_eval.replay import Pricing, call_cost, price_ref, replayed, repriced

__all__ = ["sweep"]

FAULTS = ["model.faults.server_error=0.1", "model.faults.unknown_usage=0.2", "retry.first_wait_s=0.001", "retry.max_attempts=12"]
GRID = ["-m", "model=simulated", "dataset=quickstart", "dataset.limit=20", "thinking=budget", "thinking.budget=0,32"]
STRATEGIES = "strategy=single,self_consistency_4,self_consistency"


def priced(sweep: Sweep, price: str) -> Outcome:
    outcome = sweep(*GRID, STRATEGIES, *FAULTS, f"model.price={price}")
    assert outcome.code == 0, outcome.out
    return outcome


@pytest.mark.parametrize(
    "price",
    ["{own: {input: 1.5, output: 4, cached_input: 0.1, cache_write: 2}}", "{provider: openai, model: gpt-5-mini}"],
    ids=["own", "book"],
)
def test_the_prices_of_the_study_give_its_own_cost(sweep: Sweep, price: str) -> None:
    study = priced(sweep, price).study
    found = replayed(study, Pricing())
    assert len(found) == 6
    assert found["new_usd"].astype(float).tolist() == pytest.approx(found["charged_usd"].tolist(), rel=1e-9)
    assert found["new_usd_per_correct"].astype(float).tolist() == pytest.approx(found["usd_per_correct"].tolist(), rel=1e-9)
    assert found["unpriced_calls"].tolist() == [0] * 6


def test_an_own_price_is_arithmetic_over_the_stored_tokens(sweep: Sweep) -> None:
    study = priced(sweep, "{own: {input: 1, output: 1}}").study
    found = replayed(study, Pricing(own=Price(Decimal(0), Decimal(10)))).set_index("cell_id")
    tokens = study.sql(
        """SELECT cell_id, sum(coalesce(output_tokens, reserved_output_tokens)) AS n FROM uses JOIN calls USING (call_id)
           WHERE NOT overshoot GROUP BY cell_id"""
    ).set_index("cell_id")["n"]
    for cell_id, row in found.iterrows():
        assert row["new_usd"] == pytest.approx(float(tokens[cell_id]) * 10 / 1e6)


def test_overshoot_is_billed_and_not_charged_under_any_price(sweep: Sweep) -> None:
    outcome = sweep(*GRID, "strategy=self_consistency", "strategy.parallel=4", "model.price.own={input: 1, output: 2}")
    assert outcome.one("SELECT count(*) AS n FROM uses WHERE overshoot")["n"] > 0
    found = replayed(outcome.study, Pricing())
    assert found["new_usd"].astype(float).tolist() == pytest.approx(found["charged_usd"].tolist())


def test_an_unpriced_study_gets_a_price_and_a_priced_one_loses_it(sweep: Sweep) -> None:
    study = priced(sweep, "{provider: null, model: null, own: null}").study
    before = replayed(study, Pricing())
    assert before["new_usd"].isna().all()
    assert (before["unpriced_calls"] == before["calls"]).all()
    after = replayed(study, Pricing(own=Price(Decimal(1), Decimal(2))))
    assert after["new_usd"].notna().all()
    assert after["charged_usd"].isna().all()
    gone = replayed(study, Pricing(model="no-such-model"))
    assert gone["new_usd"].isna().all(), "never 0"


def test_a_model_of_its_own_goes_first(sweep: Sweep) -> None:
    study = priced(sweep, "{own: {input: 1, output: 1}}").study
    pricing = Pricing(own=Price(Decimal(1), Decimal(1)), models={"simulated": PriceRef(own=Price(Decimal(2), Decimal(2)))})
    found = replayed(study, pricing)
    assert found["new_usd"].astype(float).tolist() == pytest.approx((2 * found["charged_usd"]).tolist())


def test_a_date_moves_the_price() -> None:
    row = {"started_at": 1.79e9, "input_tokens": 10**6, "output_tokens": 10**6, "cached_input_tokens": None, "cache_write_tokens": None}
    o3 = PriceRef("openai", "o3")
    assert call_cost(row, o3, Pricing(at=1_748_736_000.0)) == Decimal(50)
    assert call_cost(row, o3, Pricing()) == Decimal(10)


def test_unknown_usage_costs_its_reservation_at_the_dearest_rate() -> None:
    row: dict[str, Any] = {"started_at": 0.0, "reserved_input_tokens": 100, "reserved_output_tokens": 10}
    row |= dict.fromkeys(("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens"))
    ref = PriceRef(own=Price(Decimal(1), Decimal(2), cache_write=Decimal(3)))
    assert call_cost(row, ref, Pricing()) == Decimal(320) / 10**6
    assert call_cost(row, PriceRef(), Pricing()) is None


def test_a_cell_without_calls_has_no_cost_and_not_none_of_it() -> None:
    cells = pd.DataFrame(
        [
            {
                "cell_id": "c",
                "model": "m",
                "thinking_label": "off",
                "strategy_label": "single",
                "variant": None,
                "n_problems": 0,
                "n_correct": None,
                "charged_usd": None,
                "usd_per_correct": None,
            }
        ]
    )
    charges = pd.DataFrame({"cell_id": [], "overshoot": []})
    found = repriced(cells, charges, {}, Pricing(own=Price(Decimal(1), Decimal(1))))
    assert found["new_usd"].tolist() == [None]
    assert found["new_usd_per_correct"].tolist() == [None]


def test_a_snapshot_of_the_book_is_a_file(sweep: Sweep, tmp_path: Path) -> None:
    study = priced(sweep, "{provider: openai, model: gpt-5-mini}").study
    book = [
        {
            "id": "openai",
            "name": "OpenAI",
            "api_pattern": "https://api\\.openai\\.com",
            "models": [{"id": "gpt-5-mini", "match": {"equals": "gpt-5-mini"}, "prices": {"input_mtok": 100, "output_mtok": 100}}],
        }
    ]
    file = tmp_path / "data.json"
    file.write_text(json.dumps(book))
    found = replayed(study, pricing_of(parsed([f"prices.book={file}"])))
    tokens = study.sql(
        """SELECT sum(coalesce(input_tokens, reserved_input_tokens) + coalesce(output_tokens, reserved_output_tokens)) AS n
           FROM uses JOIN calls USING (call_id) WHERE NOT overshoot"""
    )["n"][0]
    assert found["new_usd"].astype(float).sum() == pytest.approx(float(tokens) * 100 / 1e6)
    gone = replayed(study, pricing_of(parsed([f"prices.book={file}", "prices.model=gpt-5"])))
    assert gone["new_usd"].isna().all()
    file.write_text("[1]")
    with pytest.raises(UserError, match="no price book"):
        pricing_of(parsed([f"prices.book={file}"]))


def test_prices_are_read_from_the_line_and_from_a_file(tmp_path: Path) -> None:
    found = parsed(["prices.own.input=0.25", "prices.own.output=2", "prices.at=2025-06-01"])
    assert found.own == Price(Decimal("0.25"), Decimal(2))
    assert pricing_of(found).at == 1748736000.0
    file = tmp_path / "prices.yaml"
    file.write_text("at: 2025-06-01\nmodels:\n  m: {own: {input: 1, output: 2}}\n  n: {provider: openai, model: gpt-5}\n")
    found = parsed([f"prices={file}"])
    assert found.at == "2025-06-01"
    assert found.models["n"] == PriceRef("openai", "gpt-5")
    assert parsed(["prices={own: {input: 1, output: 2}}"]).own == Price(Decimal(1), Decimal(2))
    assert price_ref({"provider": None, "model": None, "own": None}) == PriceRef()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["prices.own.inptu=1"], "did you mean prices.own.input"),
        (["prices.own.input=1"], "output"),
        (["prices.own.input=-1", "prices.own.output=1"], "no price"),
        (["price=1"], "replay takes prices"),
        (["prices.provider=openai"], "prices.model"),
        (["prices=nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_is_wrong_with_prices_is_named(overrides: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        parsed(overrides)


def test_a_date_that_is_none_is_named() -> None:
    with pytest.raises(UserError, match="give a date"):
        pricing_of(parsed(["prices.at=soon"]))


def test_the_command_shows_both_and_changes_nothing(sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = priced(sweep, "{own: {input: 1, output: 1}}")
    before = outcome.study.sql("SELECT count(*) AS n, sum(cost_usd) AS usd FROM calls").to_dict("records")
    assert main(["replay", str(outcome.path), "prices.own.input=3", "prices.own.output=3"]) == 0
    out = capsys.readouterr().out
    assert out.count("3.000") >= 6
    assert "no call was made" in out
    assert main(["replay", str(outcome.path), "prices.model=nope"]) == 0
    out = capsys.readouterr().out
    assert "have no price here" in out
    assert "no price" in out
    assert main(["replay", str(outcome.path), "another"]) == 2
    assert outcome.study.sql("SELECT count(*) AS n, sum(cost_usd) AS usd FROM calls").to_dict("records") == before
