"""Figures: what they have to say in themselves, and frames at the edges. Every figure is rendered."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from ttc_eval import plots

FOUR = (("single", 1), ("self_consistency", 4), ("self_consistency", 16), ("best_of_n", 8))
FIGURES = (plots.budget_curve, plots.selection_gap, plots.cost_curve, plots.overview)
Draw = Callable[[pd.DataFrame], Figure]


def cells(
    strategies: tuple[tuple[str, int], ...] = FOUR,
    budgets: tuple[int | None, ...] = (None, 256, 1024, 4096),
    seeds: tuple[int, ...] = (0,),
    n: int = 200,
    **columns: Any,
) -> pd.DataFrame:
    """A made-up but plausible `cell_metrics` frame; `columns` replace or add columns."""
    rows: list[dict[str, Any]] = []
    for name, draws in strategies:
        for budget in budgets:
            for seed in seeds:
                success = min(0.95, 0.35 + 0.05 * np.log2(1 + (budget or 0) / 128) + 0.03 * np.log2(draws) + 0.01 * seed)
                candidates = min(0.99, success + 0.03 * np.log2(draws))
                tokens = draws * (150 + 0.6 * (budget or 0))
                half = 1.96 * np.sqrt(success * (1 - success) / n)
                rows.append(
                    {
                        "cell_id": f"cell-{len(rows)}",
                        "model": "small-model",
                        "strategy": name,
                        "strategy_label": name if draws == 1 else f"{name}@{draws}",
                        "dataset": "gsm8k",
                        "split": "heldout",
                        "thinking_mode": "off" if budget is None else "budget",
                        "thinking_budget": budget,
                        "thinking_label": "off" if budget is None else f"budget {budget}",
                        "seed": seed,
                        "simulated": False,
                        "n_problems": n,
                        "success": success,
                        "success_low": success - half,
                        "success_high": success + half,
                        "candidate_success": candidates,
                        "candidate_success_low": candidates - half,
                        "candidate_success_high": min(1.0, candidates + half),
                        "selection_gap": candidates - success,
                        "selection_gap_low": max(0.0, candidates - success - 0.02),
                        "selection_gap_high": candidates - success + 0.02,
                        "mean_output_tokens": tokens,
                        "mean_output_tokens_low": 0.95 * tokens,
                        "mean_output_tokens_high": 1.05 * tokens,
                        "charged_usd": 4e-7 * tokens * n,
                    }
                )
    frame = pd.DataFrame(rows).assign(**columns)
    frame["thinking_budget"] = frame["thinking_budget"].astype("Int64")
    return frame


def render(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    image = buffer.getvalue()
    assert image.startswith(b"\x89PNG")
    return image


def words(figure: Figure) -> str:
    return " | ".join(" ".join(text.get_text().split()) for text in figure.findobj(Text))


def lines(ax: Axes, frame: pd.DataFrame) -> dict[str, list[Any]]:
    """The lines of each strategy, by label."""
    found: dict[str, list[Any]] = {label: [] for label in frame["strategy_label"].unique()}
    for line in ax.lines:
        if line.get_label() in found:
            found[str(line.get_label())].append(line)
    return found


def ticks(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_xticklabels()]


def side_labels(ax: Axes, frame: pd.DataFrame) -> list[Text]:
    return [text for text in ax.texts if text.get_text() in set(frame["strategy_label"])]


class TestBudgetCurve:
    def test_one_line_per_strategy_over_all_budgets(self) -> None:
        frame = cells()
        (ax,) = plots.budget_curve(frame).axes
        found = lines(ax, frame)
        assert [len(of_one) for of_one in found.values()] == [1, 1, 1, 1]
        expected = frame[frame["strategy_label"] == "single"]["success"].tolist()
        assert found["single"][0].get_ydata().tolist() == pytest.approx(expected)
        assert len(ax.collections) >= 4  # bands

    def test_tested_budgets_are_the_ticks_at_even_distances_with_off_first(self) -> None:
        (ax,) = plots.budget_curve(cells(budgets=(4096, None, 16000, 256))).axes
        assert ticks(ax) == ["off", "256", "4,096", "16k"]
        assert ax.get_xticks().tolist() == [0, 1, 2, 3]
        assert ax.get_xlabel() == "thinking budget (tokens)"
        assert ax.get_ylabel() == "success (share of all problems)"

    def test_a_line_is_named_beside_its_end(self) -> None:
        frame = cells()
        (ax,) = plots.budget_curve(frame).axes
        assert {text.get_text() for text in side_labels(ax, frame)} == set(frame["strategy_label"])

    @pytest.mark.parametrize("count", [4, 13, 30])
    def test_labels_do_not_overlap(self, count: int) -> None:
        frame = cells(tuple(("vote", 2 + i) for i in range(count)), success=0.5)
        figure = plots.budget_curve(frame)
        (ax,) = figure.axes
        boxes = [text.get_window_extent() for text in side_labels(ax, frame)]
        assert len(boxes) == count
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        assert all(box.x1 <= figure.bbox.x1 for box in boxes)

    def test_effort_levels_stand_apart_from_budgets(self) -> None:
        efforts = pd.concat(
            [cells((("single", 1),), (None,)).assign(thinking_mode="effort", thinking_label=f"effort {e}") for e in ("high", "low")]
        )
        frame = pd.concat([cells((("single", 1),)), efforts])
        (ax,) = plots.budget_curve(frame).axes
        assert ticks(ax) == ["off", "256", "1,024", "4,096", "effort low", "effort high"]
        assert len(lines(ax, frame)["single"]) == 2  # not joined: an effort is not a number of tokens
        assert ax.get_xlabel() == "thinking budget (tokens), or effort"

    def test_seeds_are_one_point_and_do_not_narrow_the_interval(self) -> None:
        frame = cells((("single", 1),), (256,), seeds=(0, 1, 2))
        figure = plots.budget_curve(frame)
        (ax,) = figure.axes
        assert lines(ax, frame)["single"][0].get_ydata().tolist() == pytest.approx([frame["success"].mean()])
        assert "3 seeds" in words(figure)
        (bar,) = ax.containers[0][2][0].get_segments()
        assert bar[:, 1].tolist() == pytest.approx([frame["success_low"].mean(), frame["success_high"].mean()])

    def test_models_and_splits_are_never_mixed_in_a_line(self) -> None:
        one, other, third = (
            cells((("single", 1),)),
            cells((("single", 1),), split="dev", model="other"),
            cells((("single", 1),), split="dev"),
        )
        text = words(plots.budget_curve(pd.concat([one, other])))
        assert "single · small-model" in text  # which model it is tells the splits apart already
        assert "single · other" in text
        text = words(plots.budget_curve(pd.concat([one, other, third])))
        assert {"single · small-model · heldout", "single · small-model · dev", "single · other · dev"} <= set(text.split(" | "))


class TestSelectionGap:
    def test_candidate_set_success_is_marked_oracle(self) -> None:
        assert "candidate set (oracle)" in words(plots.selection_gap(cells()))

    def test_each_point_has_its_candidate_set_above(self) -> None:
        frame = cells((("self_consistency", 4),))
        (ax,) = plots.selection_gap(frame).axes
        (success,) = lines(ax, frame)["self_consistency@4"]
        hollow = next(line for line in ax.lines if line.get_markerfacecolor() == "white")
        assert success.get_ydata().tolist() == pytest.approx(frame["success"].tolist())
        assert hollow.get_ydata().tolist() == pytest.approx(frame["candidate_success"].tolist())
        assert hollow.get_xdata().tolist() == success.get_xdata().tolist()


class TestCostCurve:
    def test_without_prices_the_cost_is_tokens_and_the_caption_says_so(self) -> None:
        figure = plots.cost_curve(cells(charged_usd=None))
        assert figure.axes[0].get_xlabel().startswith("output tokens per problem, charged")
        assert "no price" in words(figure)

    def test_with_prices_the_cost_is_usd(self) -> None:
        figure = plots.cost_curve(cells())
        assert figure.axes[0].get_xlabel().startswith("USD per problem, charged")
        assert "no price" not in words(figure)

    @pytest.mark.parametrize("unpriced", [None, 0.0])
    def test_one_cell_without_a_price_is_never_shown_as_free(self, unpriced: float | None) -> None:
        frame = cells()
        frame["charged_usd"] = [unpriced, *frame["charged_usd"].tolist()[1:]]
        assert "no price" in words(plots.cost_curve(frame))

    def test_the_frontier_holds_the_best_success_at_each_cost(self) -> None:
        frame = cells((("a", 2), ("b", 3), ("c", 4), ("d", 5)), (None,), charged_usd=None)
        frame["mean_output_tokens"] = [100, 200, 300, 400]
        frame["success"] = [0.4, 0.3, 0.6, 0.6]
        (ax,) = plots.cost_curve(frame).axes
        (frontier,) = [line for line in ax.lines if line.get_label() == "frontier"]
        assert frontier.get_xdata()[:-1].tolist() == [100, 300]
        assert frontier.get_ydata()[:-1].tolist() == [0.4, 0.6]

    def test_candidate_sets_are_not_on_it(self) -> None:
        frame = cells(candidate_success=0.99)
        (ax,) = plots.cost_curve(frame).axes
        assert max(float(np.max(line.get_ydata())) for line in ax.lines) <= max(frame["success"].max(), 1.0)
        assert not any(0.985 < y < 0.995 for line in ax.lines if line.get_gid() != "key" for y in np.ravel(line.get_ydata()))

    def test_cells_without_a_cost_leave_a_figure_that_says_so(self) -> None:
        assert "no cell has a cost" in words(plots.cost_curve(cells(charged_usd=None, mean_output_tokens=None)))


class TestOverview:
    def test_three_panels_for_a_readme(self) -> None:
        figure = plots.overview(cells())
        assert len(figure.axes) == 3
        assert figure.get_size_inches().tolist() == [10.0, 3.6]

    def test_the_caption_states_n_split_model_and_method(self) -> None:
        text = words(plots.overview(cells(), interval_method="Wilson, 95 %"))
        for fact in ("n = 200 problems", "dataset gsm8k", "split heldout", "model small-model", "Wilson, 95 %"):
            assert fact in text

    def test_nothing_leaves_the_figure(self) -> None:
        figure = plots.overview(cells(simulated=True))
        texts = [text for ax in figure.axes for text in (*ax.texts, ax.xaxis.label, ax.yaxis.label, ax.title)]
        for text in (*texts, *figure.texts):
            box = text.get_window_extent()
            assert -1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1, text
            assert -1 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1, text

    def test_many_strategies_are_stacked(self) -> None:
        frame = cells(tuple(("self_consistency", 2 + i) for i in range(14)))
        figure = plots.overview(frame)
        assert len({ax.get_position().x0 for ax in figure.axes}) == 1
        styles = {
            (line.get_color(), line.get_marker(), str(line.get_linestyle())) for of in lines(figure.axes[0], frame).values() for line in of
        }
        assert len(styles) == 14


@pytest.mark.parametrize("draw", FIGURES)
class TestEveryFigure:
    def test_simulated_cells_are_stamped_into_every_panel(self, draw: Draw) -> None:
        figure = draw(cells(simulated=True))
        for ax in figure.axes:
            assert "simulated" in [text.get_text() for text in ax.texts]
        assert "simulated data" in words(figure)
        assert "simulated" not in words(draw(cells()))

    def test_one_simulated_cell_is_enough(self, draw: Draw) -> None:
        frame = cells()
        frame["simulated"] = [True] + [False] * (len(frame) - 1)
        assert "partly simulated" in words(draw(frame))

    @pytest.mark.parametrize(
        "frame",
        [
            cells((("single", 1),), (None,)),
            cells((("single", 1),), (64,), n=1, success=1.0, success_low=0.2, success_high=1.0, candidate_success=1.0),
            cells(budgets=(64,)),
            cells(budgets=(None,)),
            cells(seeds=(0, 1, 2)),
            cells(tuple(("self_consistency", 2 + i) for i in range(25)), (64, 128)),
            cells(success=0.0, success_low=0.0, success_high=0.0, candidate_success=0.0, selection_gap_low=0.0, selection_gap_high=0.0),
            cells(success_low=None, success_high=None, candidate_success=None, selection_gap_low=None, selection_gap_high=None),
            cells(mean_output_tokens=0.0, mean_output_tokens_low=-1.0, charged_usd=0.0),
            cells(mean_output_tokens_low=None, mean_output_tokens_high=None, charged_usd=None),
            cells(charged_usd=Decimal("0.25"), success=Decimal("0.5"), n_problems=pd.NA, model=None),
            cells(strategy_label="a_strategy_with_$dollars_and_^hats_" + "x" * 80, model="m$"),
            cells(thinking_mode=None, thinking_budget=None, thinking_label=None),
            cells()[["strategy_label", "thinking_mode", "thinking_budget", "success"]],
        ],
        ids=lambda frame: f"{len(frame)}",
    )
    def test_edge_frames_render(self, draw: Draw, frame: pd.DataFrame) -> None:
        render(draw(frame))

    def test_cells_without_a_result_are_counted_not_drawn(self, draw: Draw) -> None:
        frame = cells()
        frame["success"] = [None, None, *frame["success"].tolist()[2:]]
        assert "2 cells without a result not shown" in words(draw(frame))

    def test_nothing_to_plot_is_an_error_that_says_why(self, draw: Draw) -> None:
        with pytest.raises(ValueError, match="no cells"):
            draw(cells().iloc[:0])
        with pytest.raises(ValueError, match="no cell has a success"):
            draw(cells(success=None))
        with pytest.raises(ValueError, match="lacks success"):
            draw(cells().drop(columns="success"))

    def test_frame_and_global_settings_stay_as_they_were(self, draw: Draw) -> None:
        frame, settings = cells(), dict(mpl.rcParams)
        before = frame.copy()
        render(draw(frame))
        pd.testing.assert_frame_equal(frame, before)
        assert dict(mpl.rcParams) == settings


class TestSave:
    def test_writes_every_format_and_makes_the_folder(self, tmp_path: Path) -> None:
        paths = plots.save(plots.budget_curve(cells()), tmp_path / "figures" / "curve.v1")
        assert [path.name for path in paths] == ["curve.v1.png", "curve.v1.pdf", "curve.v1.svg"]
        assert paths[0].read_bytes().startswith(b"\x89PNG")
        assert "<svg" in paths[2].read_text(encoding="utf-8")

    def test_pdf_fonts_are_embedded_as_truetype(self, tmp_path: Path) -> None:
        (path,) = plots.save(plots.budget_curve(cells()), tmp_path / "curve", ("pdf",))
        content = path.read_bytes()
        assert b"/FontFile2" in content
        assert b"/Type3" not in content

    def test_the_same_figure_gives_the_same_bytes(self, tmp_path: Path) -> None:
        formats = ("pdf", "svg")
        first = [path.read_bytes() for path in plots.save(plots.overview(cells()), tmp_path / "a", formats)]
        second = [path.read_bytes() for path in plots.save(plots.overview(cells()), tmp_path / "b", formats)]
        assert first == second


def test_pyplot_is_never_imported() -> None:
    code = "import sys, ttc_eval.plots; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
