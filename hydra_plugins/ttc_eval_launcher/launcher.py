# No `from __future__ import annotations` here: Hydra's plugin scan cannot read a dataclass with postponed annotations.
from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


class OneLoopLauncher(Launcher):
    """Composes every job's config and hands them to the sweep runner, which runs them all at once.

    Hydra finds launchers only in the `hydra_plugins` namespace. The basic launcher would run one job after another, and
    the process pools one process a job; neither can share a model, a ledger and a pool of draws.
    """

    def __init__(self) -> None:
        self._context: HydraContext | None = None
        self._config: DictConfig | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:  # noqa: ARG002
        """Keep what is needed to compose; the task function is not used, since all jobs run together."""
        self._context, self._config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Compose all jobs. Each is reported as completed: the runner stores and shows what becomes of it."""
        from ttc_eval.sweep.app import collect

        assert self._context is not None
        assert self._config is not None
        returns: list[JobReturn] = []
        for place, overrides in enumerate(job_overrides):
            config = self._context.config_loader.load_sweep_config(self._config, list(overrides))
            with open_dict(config):
                del config["hydra"]
            collect(config)
            returned = JobReturn(overrides=overrides, cfg=config, status=JobStatus.COMPLETED)
            returned.working_dir, returned.task_name = ".", f"cell {initial_job_idx + place}"
            returns.append(returned)
        return returns


@dataclass
class OneLoopLauncherConfig:
    """The node `hydra/launcher: one_loop`."""

    _target_: str = "hydra_plugins.ttc_eval_launcher.launcher.OneLoopLauncher"


ConfigStore.instance().store(group="hydra/launcher", name="one_loop", node=OneLoopLauncherConfig, provider="ttc_eval")
