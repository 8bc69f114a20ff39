"""From the command line to a job: composed by Hydra, typed, and refused here when it cannot be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from ttc_eval import prices
from ttc_eval.errors import UserError
from ttc_eval.exchange import RetryPolicy
from ttc_eval.ledger import Limits
from ttc_eval.models.base import ChecksItself, Model, NeedsAnswers
from ttc_eval.records import JSON, Problem, digest, json_keys
from ttc_eval.resources import share
from ttc_eval.store import StudyPaths
from ttc_eval.sweep.app import explain, plain
from ttc_eval.sweep.config import AllLimits, build, typed
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import Verifier
from ttc_eval.verify.traces import What

_KEYS = ("model", "verifier", "limits", "what", "seed", "retry")
# A verifier that brings a model of its own is not asked of the other one.
_OWN_MODEL = "verifier_model"


@dataclass(frozen=True, slots=True)
class Job:
    """Who scores what of a study, and what that may cost.

    Attributes:
        label: the verifier's name in the store: its own and the judge's, such as `trace:smollm2-135m`.
        pool: names the judge's calls; hash: the job, so that an unfinished run of it goes on with what it has spent.
    """

    paths: StudyPaths
    model: Model
    verifier: Verifier
    label: str
    what: What
    limits: Limits
    retry: RetryPolicy
    seed: int
    pool: str
    hash: str
    overrides: tuple[str, ...]
    limits_given: JSON


def compose(overrides: Sequence[str], config_dir: Path | None = None) -> dict[str, Any]:
    """The config that the overrides ask for, as plain values. Raises `UserError` as a sweep does."""
    own = [] if config_dir is None else [f"hydra.searchpath=[file://{config_dir.absolute()}]"]
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(share() / "configs"), version_base="1.3"):
            return plain(hydra.compose("verify", overrides=[*overrides, *own]))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(explain(error, overrides)) from None
    finally:
        GlobalHydra.instance().clear()


def prepare(
    composed: dict[str, Any], paths: StudyPaths, problems: Sequence[Problem], overrides: Sequence[str], name: str | None = None
) -> Job:
    """The job that a composed config describes. Raises `UserError` for what cannot be run; nothing has been sent then.

    Args:
        problems: of the study; a simulated judge needs their references.
        name: what the verifier is called in the store, where its own name and the judge's do not tell it apart.
    """
    unknown = sorted(set(composed) - {*_KEYS, _OWN_MODEL})
    if unknown:
        raise UserError(f"{unknown[0]}: verify has no such key; the keys are: {', '.join(_KEYS)}")
    missing = [key for key in _KEYS if composed.get(key) is None]
    if missing:
        raise UserError(f"{missing[0]}: it is missing from the config")
    if composed["what"] not in tuple(What):
        raise UserError(f"what={composed['what']}: give one of: {', '.join(What)}")
    seed = composed["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise UserError(f"seed={seed}: give a whole number, 0 or more")
    limits = typed(AllLimits, composed["limits"], "limits")
    if limits.cell != Limits() or limits.problem != Limits():
        raise UserError("limits.cell and limits.problem: verify has neither cells nor problems; give limits.sweep.…")
    judge = "model" if composed.get(_OWN_MODEL) is None else _OWN_MODEL
    model, verifier = build(composed[judge], judge), build(composed["verifier"], "verifier")
    if not hasattr(verifier, "messages"):
        raise UserError(
            f"verifier={verifier.name}: verify asks a model for scores of stored texts, one by one; take for example verifier=outcome"
        )
    if isinstance(model, NeedsAnswers):
        model = model.with_answers(problems)
    info = model.info
    info.thinking.check(Thinking(), info.name)
    if limits.sweep.usd is not None and not prices.has_price(info.price):
        raise UserError(
            f"limits.sweep.usd: model {info.name!r} has no price, so a USD limit cannot be kept; set model.price.own, or limit tokens"
        )
    if isinstance(model, ChecksItself):
        model.check()
    pool = digest(["verify", info.endpoint, info.model or info.name, json_keys(composed["verifier"]), seed])
    label = name or f"{verifier.name}:{info.name}"
    limited = composed["limits"]["sweep"]
    return Job(
        paths=paths,
        model=model,
        verifier=verifier,
        label=label,
        what=What(composed["what"]),
        limits=limits.sweep,
        retry=typed(RetryPolicy, composed["retry"], "retry"),
        seed=seed,
        pool=pool,
        hash=digest([pool, label, composed["what"], {key: str(value) for key, value in limited.items()}]),
        # The values of headers may be keys.
        overrides=tuple(override for override in overrides if "headers" not in override),
        limits_given=limited,
    )


def study_paths(database: Path) -> StudyPaths:
    """The files of the study that `database` names: a file, or a name in `results`. Raises `UserError` when there is none."""
    named = not database.exists() and not database.suffix
    paths = StudyPaths(Path("results") / f"{database}.duckdb" if named else database)
    if not paths.database.exists() and not paths.journals.is_dir():
        raise UserError(f"{database}: there is no such study; run a sweep first, for example: make sweep")
    return paths
