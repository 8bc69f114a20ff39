"""`ttc-eval doctor`: what works on this machine. Sends nothing, unless `--ping MODEL` asks for one tiny request."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ttc_eval import health
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.health import Check
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport

_STYLES = {"ok": "green", "off": "yellow", "broken": "red"}
_PING_TOKENS = 16
_PING_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--ping", metavar="MODEL", help="send one tiny request to this model config and report what came back; it is billed"
    )
    parser.add_argument("--config-dir", metavar="DIR", help="a folder of your own configs, as for sweep")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides for --ping, such as model.base_url=…")


def run(options: argparse.Namespace) -> int:
    """Print the checks; 0 unless something that is configured by default, or the model that was pinged, does not work."""
    from ttc_eval.sweep.summary import output_console

    console = output_console()
    if options.overrides and options.ping is None:
        raise UserError(f"doctor: {options.overrides[0]} is an override for --ping MODEL, which is missing")
    more = ["--config-dir", options.config_dir] if options.config_dir else []
    if options.ping is not None:
        return _ping(console, [*more, f"model={options.ping}", *options.overrides])
    checks = found(_configs(options.config_dir))
    for check in checks:
        _line(console, check)
    broken = [check.name for check in checks if check.state == "broken"]
    last = f"broken: {', '.join(broken)}" if broken else "nothing that is used by default is broken"
    console.print(Text(f"{last}; nothing was sent (ttc-eval doctor --ping MODEL sends one tiny request)"), soft_wrap=True)
    return int(bool(broken))


def found(configs: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Every check, of this process and its folder."""
    return [
        health.python(),
        health.packages(),
        health.price_book(),
        health.default_model(lambda: _model([])),
        *(health.embedded(name, lambda name=name: _model([f"model={name}"])) for name in _embedded(configs)),  # type: ignore[misc]
        health.results(Path("results")),
        health.open_files(),
        health.sandbox(),
        *health.providers(configs, os.environ),
    ]


def _embedded(configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Configs of models that run here: no endpoint, nothing to fill in, and not invented."""
    names = []
    for name, config in sorted(configs.items()):
        target = str(config.get("_target_", ""))
        if "base_url" not in config and "???" not in config.values() and not target.endswith(("SimulatedModel", "ScriptedModel")):
            names.append(name)
    return names


def _configs(own: str | None) -> dict[str, Mapping[str, Any]]:
    """Model configs by name, as their files hold them."""
    from omegaconf import OmegaConf

    from ttc_eval.resources import share

    folders = [share() / "configs", *([Path(own)] if own else [])]
    paths = [path for folder in folders for path in sorted((folder / "model").glob("*.yaml"))]
    configs: dict[str, Mapping[str, Any]] = {}
    for path in paths:
        loaded = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
        configs[path.stem] = {str(key): value for key, value in loaded.items()} if isinstance(loaded, dict) else {}
    return configs


def _model(arguments: list[str]) -> Any:
    from ttc_eval.sweep.app import compose, plain
    from ttc_eval.sweep.config import build

    return build(plain(compose(arguments)[0])["model"], "model")


def _ping(console: Console, arguments: list[str]) -> int:
    model = _model(arguments)
    try:
        response, cost = asyncio.run(asyncio.wait_for(_asked(model), _PING_S))
    except CallFailed as failure:
        _line(console, Check(model.info.name, "broken", f"{failure.kind}: {failure}"))
        return 1
    except TimeoutError:
        _line(console, Check(model.info.name, "broken", f"no whole reply within {_PING_S:g} s"))
        return 1
    usage, times = response.usage, response.timings
    counted = "usage unknown" if not usage.known else f"{usage.input_tokens} input and {usage.output_tokens} output tokens"
    if usage.reasoning_tokens is not None:
        counted += f", {usage.reasoning_tokens} of them reasoning"
    first = "unknown" if times.first_token_s is None else f"{times.first_token_s:.2f} s"
    money = "no price" if cost is None else f"${cost:.6f}"
    said = f"answered ({response.stop.value}); first token after {first}, whole after {times.latency_s:.2f} s; {counted}; {money}"
    _line(console, Check(model.info.name, "ok", said))
    return 0


async def _asked(model: Any) -> tuple[Any, Any]:
    """One tiny request, with the least thinking that the model takes. Raises `CallFailed`, and `UserError` when it cannot connect."""
    from ttc_eval import prices
    from ttc_eval.models.base import NeedsAnswers
    from ttc_eval.records import AnswerContract, Message, Problem, Request, Sampling

    messages = (Message("user", "Reply with the word OK."),)
    if isinstance(model, NeedsAnswers):
        model = model.with_answers([Problem("ping", "ping", "ping", messages, "OK", AnswerContract())])
    info = model.info
    thinking = least_thinking(info.thinking)
    cap = (thinking.budget or 0) + (_PING_TOKENS if thinking.mode.value in ("off", "budget") else 64 * _PING_TOKENS)
    async with model.connect() as connection:
        request = Request(info.model or info.name, info.endpoint, messages, thinking, Sampling(), cap - (thinking.budget or 0), cap)
        response = await connection.respond(request)
    return response, prices.cost(info.price, response.usage, response.timings.started_at)


def least_thinking(support: ThinkingSupport) -> Thinking:
    """The form of thinking that a model takes and that thinks the least."""
    if ThinkingMode.OFF in support.accepts:
        return Thinking()
    if ThinkingMode.EFFORT in support.accepts and support.efforts:
        return Thinking(ThinkingMode.EFFORT, effort=support.efforts[0])
    if ThinkingMode.ADAPTIVE in support.accepts:
        return Thinking(ThinkingMode.ADAPTIVE)
    return Thinking(ThinkingMode.BUDGET, budget=max(1, support.min_budget))


def _line(console: Console, check: Check) -> None:
    console.print(
        Text(f"{check.state:7}", style=_STYLES[check.state]) + Text(f"{check.name}: ", style="bold") + Text(check.said), soft_wrap=True
    )
