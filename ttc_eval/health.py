"""What works on this machine: one check per thing that a sweep may need. Nothing is sent, and no key is shown.

| state | meaning |
|---|---|
| ok | it works |
| off | it is not there, and nothing that is configured by default needs it |
| broken | the default configuration needs it and it does not work |
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

from ttc_eval.errors import UserError

State = Literal["ok", "off", "broken"]

_ENOUGH_BYTES = 1 << 30
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, its state, and what there is to know or to do."""

    name: str
    state: State
    said: str


def python() -> Check:
    """The interpreter, against the versions that the package is made for."""
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    said = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return Check("python", "ok" if fits else "broken", said if fits else f"{said}; 3.11 to 3.13 are supported")


def packages(names: Sequence[str] | None = None) -> Check:
    """The packages that ttc_eval declares, with their versions; one that is missing breaks it."""
    found, missing = [], []
    for name in required() if names is None else names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("packages", "broken", f"missing: {', '.join(missing)}; run: make setup (or pip install ttc_eval)")
    return Check("packages", "ok", ", ".join(found))


def required() -> list[str]:
    """Names of the packages that ttc_eval needs, extras left out."""
    stops = (" ", ">", "<", "=", "!", "~", "[", ";", "(")
    names = [one for one in requires("ttc_eval") or [] if "extra ==" not in one]
    return ["ttc_eval", *(name[: min((name.find(stop) for stop in stops if stop in name), default=len(name))] for name in names)]


def price_book() -> Check:
    """The pinned price book, asked for one price that it has had for long."""
    from ttc_eval.models.base import PriceRef
    from ttc_eval.prices import book_version, has_price

    works = has_price(PriceRef("openai", "gpt-4o"))
    return Check("price book", "ok" if works else "broken", f"{book_version()}, offline" if works else f"{book_version()} gives no price")


def sandbox() -> Check:
    """Whether there is a sandbox that holds, in which programs that a model wrote could run. A harmless program tries each of its walls."""
    from ttc_eval.sandbox.probe import look

    found = look()
    if found.sandbox is None:
        return Check("sandbox", "off", f"{found.said}; it is needed only to run programs that a model wrote")
    return Check("sandbox", "ok", found.said)


def results(folder: Path) -> Check:
    """Whether results can be written, and the room for them."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        return Check("results", "broken", f"{folder}: it cannot be written to; give another with results_dir=…")
    free = shutil.disk_usage(there).free
    said = f"{folder}: {free / 1e9:.1f} GB free"
    return Check("results", "ok" if free >= _ENOUGH_BYTES else "broken", said if free >= _ENOUGH_BYTES else f"{said}; make room")


def open_files(wanted: int = 1024) -> Check:
    """How many connections may be open at once."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + 64:
        return Check("open files", "off", f"{soft} at once; for more concurrency than that raise it: ulimit -n {hard}")
    return Check("open files", "ok", f"{'no limit' if soft == resource.RLIM_INFINITY else soft} at once")


def default_model(build: Callable[[], Any]) -> Check:
    """Whether the model that a plain `ttc-eval sweep` uses could be connected to; `build` makes it."""
    try:
        model = build()
        model.check() if hasattr(model, "check") else None
        info = model.info
    except UserError as error:
        return Check("default model", "broken", str(error))
    return Check("default model", "ok", f"{info.name}: {engine(model) or info.endpoint}")


def embedded(name: str, build: Callable[[], Any]) -> Check:
    """Whether a model that runs in this process could; it is not needed, so what is missing is only said."""
    found = default_model(build)
    return Check(f"model={name}", "off" if found.state == "broken" else found.state, found.said)


def engine(model: Any) -> str:
    """Engine and weights of a model that runs here; empty for any other."""
    weights = getattr(model, "weights", None)
    if weights is None:
        return ""
    try:
        runs = f"xllamacpp {version('xllamacpp')}"
    except PackageNotFoundError:
        runs = "no engine"
    checked = "hash as expected" if getattr(model, "sha256", None) else "hash not checked"
    return f"{runs}, weights {weights.rpartition('/')[2]} ({checked})"


def providers(configs: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]) -> list[Check]:
    """Which providers' keys are there, by the variables that the model configs name. No value is looked at but for being empty.

    Args:
        configs: model configs by name, as their files hold them.
        environment: the variables.
    """
    users: dict[str, list[str]] = defaultdict(list)
    local = []
    for name, config in sorted(configs.items()):
        if config.get("api_key_env"):
            users[str(config["api_key_env"])].append(name)
        elif any(host in str(config.get("base_url", "")) for host in _LOOPBACK):
            local.append(name)
    checks = []
    for variable, names in sorted(users.items()):
        there = bool(environment.get(variable, "").strip())
        said = f"{'set' if there else 'not set'}; for model={', '.join(names)}"
        checks.append(Check(variable, "ok" if there else "off", said))
    if local:
        checks.append(Check("local servers", "off", f"not asked; for model={', '.join(local)}"))
    return checks
