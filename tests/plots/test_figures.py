"""Figures of analyses: what each says in itself, that it looks as it did, in colour and in grey, and frames that it cannot draw."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import frames
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text

from ttc_eval import plots

BASELINE = Path(__file__).parent / "baseline"

# Root mean square of the difference of pixels, of 255: fonts are hinted a little differently from one machine to the next.
TOLERANCE = 6.0

DRAWN: dict[str, Callable[[], Figure]] = {
    "cost_frontier": lambda: plots.cost_frontier(frames.frontier()),
    "equal_cost_difference": lambda: plots.equal_cost_difference(frames.equal_cost()),
    "sampling_curves": lambda: plots.sampling_curves(frames.sampling()),
    "sampling_curves_one_pool": lambda: plots.sampling_curves(frames.sampling(("budget 512",))),
    "coverage_scaling": lambda: plots.coverage_scaling(frames.coverage()),
    "stopping_tradeoff": lambda: plots.stopping_tradeoff(frames.stopping()),
    "outcome_breakdown": lambda: plots.outcome_breakdown(frames.outcomes()),
    "cost_decomposition": lambda: plots.cost_decomposition(frames.costs()),
    "verifier_audit": lambda: plots.verifier_audit(frames.reliability(), frames.overoptimisation()),
    "heat_map": lambda: plots.heat_map(frames.heat()),
    "latency": lambda: plots.latency(frames.latency()),
    "policy_curve": lambda: plots.policy_curve(frames.policy()),
}


def words(figure: Figure) -> str:
    return " | ".join(" ".join(text.get_text().split()) for text in figure.findobj(Text))


@pytest.mark.parametrize("name", DRAWN)
class TestEveryFigure:
    def test_it_looks_as_it_did(self, name: str, tmp_path: Path) -> None:
        """With TTC_EVAL_NEW_BASELINE=1 the images are made anew; they are looked at before they are committed."""
        with mpl.rc_context({"savefig.dpi": 80}):
            DRAWN[name]().savefig(tmp_path / f"{name}.png", dpi=80)
        if os.environ.get("TTC_EVAL_NEW_BASELINE"):
            BASELINE.mkdir(exist_ok=True)
            (BASELINE / f"{name}.png").write_bytes((tmp_path / f"{name}.png").read_bytes())
        assert compare_images(str(BASELINE / f"{name}.png"), str(tmp_path / f"{name}.png"), TOLERANCE) is None

    def test_it_is_read_at_one_column_or_two(self, name: str, tmp_path: Path) -> None:
        figure = DRAWN[name]()
        width, _ = figure.get_size_inches()
        column = 3.4 if width <= 5.2 else 6.9
        sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
        assert min(sizes) * min(1.0, column / width) >= 3.8

    def test_no_text_leaves_the_figure(self, name: str, tmp_path: Path) -> None:
        figure = DRAWN[name]()
        figure.draw_without_rendering()
        width, height = figure.get_size_inches()
        drawn = figure.get_tightbbox()  # of what takes part in the layout, ticks that are shown included
        slack = 2 / 72
        assert drawn.x0 >= -slack
        assert drawn.y0 >= -slack
        assert drawn.x1 <= width + slack
        assert drawn.y1 <= height + slack
        for text in figure.findobj(lambda one: isinstance(one, Text) and not one.get_in_layout() and bool(one.get_text())):
            assert text.get_window_extent().x1 <= figure.bbox.x1 + 2, text.get_text()

    def test_it_says_where_its_numbers_come_from(self, name: str) -> None:
        said = words(DRAWN[name]())
        assert "split heldout" in said or "split dev" in said
        assert "dataset gsm8k" in said
        assert "model small-model" in said

    def test_it_leaves_the_style_of_its_caller_alone(self, name: str) -> None:
        before = {key: str(value) for key, value in mpl.rcParams.items() if key != "backend"}
        DRAWN[name]()
        assert {key: str(value) for key, value in mpl.rcParams.items() if key != "backend"} == before


class TestWhatFiguresSay:
    def test_an_oracle_is_named(self) -> None:
        assert "any right (oracle)" in words(plots.sampling_curves(frames.sampling()))
        assert "pass@k (oracle)" in words(plots.coverage_scaling(frames.coverage()))
        assert "any right (oracle)" in words(plots.verifier_audit(frames.reliability(), frames.overoptimisation()))
        assert "(oracle)" in words(plots.heat_map(frames.heat()))
        assert "by success (oracle)" in words(plots.policy_curve(frames.policy(oracle=True)))

    @pytest.mark.parametrize("draw", [plots.cost_frontier, plots.latency, plots.outcome_breakdown])
    def test_simulated_cells_are_marked(self, draw: Callable[[pd.DataFrame], Figure]) -> None:
        frame = {plots.cost_frontier: frames.frontier, plots.latency: frames.latency, plots.outcome_breakdown: frames.outcomes}[draw]()
        assert "simulated" not in words(draw(frame))
        assert "simulated" in words(draw(frame.assign(simulated=True)))
        some = frame.assign(simulated=frame["strategy_label"] == "single")
        assert "partly simulated" in words(draw(some))

    def test_extrapolation_is_marked_and_only_where_there_is_any(self) -> None:
        assert "extrapolated" in words(plots.coverage_scaling(frames.coverage()))
        assert "extrapolated" not in words(plots.coverage_scaling(frames.coverage(extrapolated=False)))

    def test_a_policy_says_where_it_was_chosen_and_where_measured(self) -> None:
        said = words(plots.policy_curve(frames.policy()))
        assert "chosen on dev, the other of 2 folds" in said
        assert "measured on dev, each fold in turn" in said

    def test_a_cell_of_unknown_cost_is_named_not_free(self) -> None:
        frame = frames.frontier()
        frame.loc[0, ["cost", "cost_low", "cost_high"]] = np.nan
        assert "1 cell of unknown cost not shown" in words(plots.cost_frontier(frame))
        assert "1 cell of unknown cost not shown" in words(plots.cost_decomposition(frames.costs(), unit="usd"))
        assert "1 cell with unknown latencies not shown" in words(plots.latency(frames.latency()))

    def test_overshoot_is_in_what_was_billed_alone(self) -> None:
        assert "overshoot" in words(plots.cost_decomposition(frames.costs(), basis="billed"))
        assert "overshoot" not in words(plots.cost_decomposition(frames.costs()))

    def test_counts_of_a_bar_sum_to_n(self) -> None:
        figure = plots.outcome_breakdown(frames.outcomes())
        tops = pd.DataFrame(
            [(round(bar.get_y(), 3), bar.get_x() + bar.get_width()) for bar in figure.axes[0].patches], columns=["row", "end"]
        )
        assert tops.groupby("row")["end"].max().to_numpy() == pytest.approx(1.0)

    def test_who_is_better_is_written_on_either_side(self) -> None:
        said = words(plots.equal_cost_difference(frames.equal_cost()))
        assert "best_of_n better" in said
        assert "single better" in said

    def test_bins_of_few_candidates_are_left_out_and_that_is_said(self) -> None:
        figure = plots.verifier_audit(frames.reliability(), frames.overoptimisation())
        assert "bins of 10 candidates or more" in words(figure)
        points = sum(len(np.asarray(one.get_offsets())) for one in figure.axes[0].collections if one.get_label().startswith("_child"))
        assert points >= 18

    def test_names_say_what_tells_cells_apart_and_no_more(self) -> None:
        plain = words(plots.outcome_breakdown(frames.outcomes()))
        assert "best_of_n@8 · budget 512" in plain
        assert "prm" not in plain  # the strategy tells already
        two = pd.concat(
            [frames.outcomes(), frames.outcomes().assign(cell_id=lambda f: f["cell_id"] + "/2", model="other")], ignore_index=True
        )
        assert "single · budget 512 · other" in words(plots.outcome_breakdown(two))

    def test_lines_differ_in_grey_too(self) -> None:
        figure = plots.sampling_curves(frames.sampling(("budget 512",)))
        drawn = [line for line in figure.axes[0].lines if len(np.atleast_1d(line.get_xdata())) > 1]
        assert len({(line.get_marker(), str(line.get_linestyle()), str(getattr(line, "_dash_pattern", ""))) for line in drawn}) == len(
            drawn
        )


class TestFramesThatCannotBeDrawn:
    @pytest.mark.parametrize(
        ("draw", "frame", "maker"),
        [
            (plots.cost_frontier, frames.frontier, "frontiers.frontier"),
            (plots.equal_cost_difference, frames.equal_cost, "comparisons.equal_cost_curve"),
            (plots.sampling_curves, frames.sampling, "sampling.curves"),
            (plots.coverage_scaling, frames.coverage, "scaling.coverage"),
            (plots.stopping_tradeoff, frames.stopping, "stopping.tradeoff"),
            (plots.outcome_breakdown, frames.outcomes, "outcomes.breakdown"),
            (plots.cost_decomposition, frames.costs, "costs.decomposition"),
            (plots.latency, frames.latency, "problems.latency"),
            (plots.heat_map, frames.heat, "problems.heat_map"),
            (plots.policy_curve, frames.policy, "policies.compute_optimal"),
        ],
    )
    def test_an_empty_frame_and_one_of_another_kind_name_who_makes_the_right_one(
        self, draw: Callable[[pd.DataFrame], Figure], frame: Callable[[], pd.DataFrame], maker: str
    ) -> None:
        with pytest.raises(ValueError, match=maker):
            draw(frame().head(0))
        with pytest.raises(ValueError, match=maker):
            draw(pd.DataFrame({"other": [1]}))

    def test_no_known_cost(self) -> None:
        with pytest.raises(ValueError, match="no cell has a known cost"):
            plots.cost_frontier(frames.frontier().assign(cost=np.nan))

    def test_an_unknown_outcome(self) -> None:
        with pytest.raises(ValueError, match="'odd' is not one of: right"):
            plots.outcome_breakdown(frames.outcomes().assign(outcome="odd"))

    def test_an_audit_without_growth_has_one_panel(self) -> None:
        assert len(plots.verifier_audit(frames.reliability(), pd.DataFrame()).axes) == 1

    @pytest.mark.parametrize("name", ["sampling_curves", "coverage_scaling", "stopping_tradeoff"])
    def test_many_pools_are_cut_and_that_is_said(self, name: str) -> None:
        frame = {"sampling_curves": frames.sampling, "coverage_scaling": frames.coverage, "stopping_tradeoff": frames.stopping}[name]()
        many = pd.concat([frame.assign(thinking_label=f"budget {i}") for i in range(9)], ignore_index=True)
        figure = getattr(plots, name)(many)
        assert "the first 6 of 9 pools" in words(figure)


def test_files_are_the_same_twice_with_fonts_embedded(tmp_path: Path) -> None:
    once = plots.save(DRAWN["outcome_breakdown"](), tmp_path / "a" / "figure")
    twice = plots.save(DRAWN["outcome_breakdown"](), tmp_path / "b" / "figure")
    assert [path.suffix for path in once] == [".png", ".pdf", ".svg"]
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in twice]
    pdf = once[1].read_bytes()
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/Type3" not in pdf
