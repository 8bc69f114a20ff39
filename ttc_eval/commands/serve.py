"""`ttc-eval serve`: a configured model as a TTC-v2 server. See docs/serve.md."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ttc_eval.errors import UserError

if TYPE_CHECKING:
    from ttc_eval.models.base import Model
    from ttc_eval.records import Sampling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="which model and how, as in a sweep: model=lab sampling.temperature=0.7, in one run",
    )
    parser.add_argument("--config-dir", default=None, help="a folder with configs of your own, as in a sweep")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: 127.0.0.1, this machine only)")
    parser.add_argument("--port", type=int, default=8420, help="port to bind, 0 for any free one (default: 8420)")
    parser.add_argument("--max-budget", type=int, default=None, metavar="N", help="largest thinking budget; above it: HTTP 400")
    parser.add_argument("--wait-form", action="store_true", help="show a used-up budget by [WAIT] and stop_sequence, not budget_exceeded")
    token = parser.add_mutually_exclusive_group()
    token.add_argument("--token-env", default=None, metavar="NAME", help="variable with the bearer token that clients must send")
    token.add_argument("--token-file", default=None, metavar="PATH", help="file with that token")
    parser.add_argument(
        "--max-concurrency", type=int, default=None, metavar="N", help="requests answered at once; beyond: HTTP 429 (default: the model's)"
    )
    parser.add_argument("--max-body-bytes", type=int, default=1024 * 1024, metavar="N", help="largest request body (default: 1 MiB)")
    parser.add_argument("--request-seconds", type=float, default=300.0, metavar="S", help="time for one request (default: 300)")
    parser.add_argument("--grace-seconds", type=float, default=10.0, metavar="S", help="time to finish when told to stop (default: 10)")
    parser.add_argument("--quiet", action="store_true", help="no line a request")


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    from ttc_eval.models.endpoint import api_key
    from ttc_eval.models.http import HttpModel
    from ttc_eval.protocol.server.run import log_to_stderr, serve
    from ttc_eval.protocol.server.service import Bounds, Service

    model, sampling = _configured(options.overrides, options.config_dir)
    info = model.info
    service = Service(
        info=info,
        max_budget=options.max_budget,
        wait_form=options.wait_form,
        # What a remote model does at its budget is its provider's affair, except where the protocol itself is spoken.
        fails_at_budget=not isinstance(model, HttpModel) or model.wire == "ttc_v2",
        sampling=sampling,
        bounds=Bounds(
            body_bytes=options.max_body_bytes,
            concurrency=info.max_concurrency if options.max_concurrency is None else options.max_concurrency,
            request_s=options.request_seconds,
            grace_s=options.grace_seconds,
        ),
        token=api_key(options.token_env, options.token_file),
    )

    def announce(url: str) -> None:
        budget = (
            "no thinking budgets"
            if not service.thinks
            else f"thinking budgets up to {'any size' if service.most is None else service.most}"
        )
        print(f"serving {info.name} at {url} ({budget}); POST /v1/messages, POST /v1/chat/completions", flush=True)

    log_to_stderr(options.quiet)
    return serve(model, service, options.host, options.port, announce)


def _configured(overrides: list[str], config_dir: str | None) -> tuple[Model, Sampling]:
    """The model and the sampling that the overrides describe, checked as for a sweep."""
    from ttc_eval.datasets import load
    from ttc_eval.models.base import ChecksItself, NeedsAnswers
    from ttc_eval.sweep.app import compose, plain
    from ttc_eval.sweep.config import parse

    wrong = next((one for one in overrides if "=" not in one), None)
    if wrong is not None:
        raise UserError(f"{wrong}: give KEY=VALUE, for example model=lab")
    arguments = [*([] if config_dir is None else ["--config-dir", config_dir]), *overrides]
    config = parse(plain(compose(arguments)[0]))
    model: Model = config.model
    if isinstance(model, NeedsAnswers):
        model = model.with_answers(load(config.dataset))
    if isinstance(model, ChecksItself):
        model.check()
    return model, config.sampling
