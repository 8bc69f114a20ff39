"""`ttc-eval recommend`: the cheapest policy of a study that reaches a target."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from rich.text import Text

from ttc_eval.commands.studies import add_database, chosen
from ttc_eval.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_database(parser)
    parser.add_argument("--target", required=True, metavar="success>=SHARE", help="what the policy has to reach, for example success>=0.8")
    parser.add_argument("--max-usd-per-problem", type=float, metavar="USD", help="mean cost, at most")
    parser.add_argument("--max-tokens-per-problem", type=float, metavar="N", help="mean output tokens, at most")
    parser.add_argument("--p95-latency", type=float, metavar="SECONDS", help="what 95 %% of the problems have to stay within")
    parser.add_argument("--confidence", type=float, default=0.95, help="that the target is reached, over all policies together (0.95)")
    parser.add_argument("--dataset", help="where the study has several")
    parser.add_argument("--choose-on", metavar="SPLIT", help="the split that the policy is chosen on (dev)")
    parser.add_argument("--report-on", metavar="SPLIT", help="the split that it is reported on (heldout)")
    parser.add_argument(
        "--tune",
        nargs="?",
        const="",
        metavar="FAMILY,…",
        help="try other thresholds of stopping rules, cascade, route and verify_selectively, over stored draws; by default of all",
    )
    parser.add_argument(
        "--on-measured-split", action="store_true", help="allow --tune on the split that is reported, or on heldout; brands the result"
    )


def run(options: argparse.Namespace) -> int:
    """Print the recommendation. Exit code 0 when there is one, 1 when no policy meets the demand."""
    from ttc_eval.analysis.recommend import Demand, in_words, recommend
    from ttc_eval.analysis.tunables import FAMILIES
    from ttc_eval.sweep.summary import output_console

    demand = Demand(
        success=target(options.target),
        confidence=options.confidence,
        max_usd=options.max_usd_per_problem,
        max_tokens=options.max_tokens_per_problem,
        p95_latency_s=options.p95_latency,
    )
    study = chosen(options.database)
    found = recommend(
        study,
        demand,
        dataset=options.dataset,
        choose_on=options.choose_on,
        report_on=options.report_on,
        tune=families(options.tune, FAMILIES),
        on_measured_split=options.on_measured_split,
    )
    console = output_console()
    for line in in_words(found, demand):
        console.print(Text(line), soft_wrap=True)
    return 0 if found.chosen is not None else 1


def families(text: str | None, every: Sequence[str]) -> Sequence[str]:
    """The families that `--tune` names: none without it, `every` one where it names none."""
    if text is None:
        return ()
    return text.split(",") if text else every


def target(text: str) -> float:
    """The share in `success>=0.8` or `success>=80%`. Raises `UserError` for anything else."""
    found = re.fullmatch(r"\s*success\s*>=\s*(\d*\.?\d+)\s*(%?)\s*", text)
    if found is None:
        raise UserError(f"--target {text}: give success>=SHARE in quotes, for example --target 'success>=0.8'")
    return float(found[1]) / (100 if found[2] else 1)
