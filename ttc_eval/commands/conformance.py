"""`ttc-eval conformance URL`: check a server against TTC-v2. See docs/serve.md."""

from __future__ import annotations

import argparse
import asyncio

from ttc_eval.protocol.conformance.probes import HARD_PROMPT, PROMPT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("url", metavar="URL", help="the server, or one of its endpoints: http://127.0.0.1:8420 or …/v1/messages")
    parser.add_argument("--model", default=None, help="the model's name at the server (default: the first that it lists)")
    parser.add_argument("--surface", choices=("messages", "chat"), default=None, help="check this one only (default: all that are there)")
    token = parser.add_mutually_exclusive_group()
    token.add_argument("--token-env", default=None, metavar="NAME", help="variable with the server's bearer token")
    token.add_argument("--token-file", default=None, metavar="PATH", help="file with that token")
    parser.add_argument("--prompt", default=PROMPT, help="a question that takes some thinking and has a short answer")
    parser.add_argument("--hard-prompt", default=HARD_PROMPT, help="a question that a budget of one token cannot do")
    parser.add_argument("--budget", type=int, default=256, metavar="N", help="thinking budget with room for --prompt (default: 256)")
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N", help="room for the text (default: 64)")
    parser.add_argument("--slack", type=int, default=4, metavar="N", help="tokens that count as slightly above a budget (default: 4)")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="S", help="seconds for one request (default: 120)")
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")


def run(options: argparse.Namespace) -> int:
    """Check the server and print the report; 0 when no MUST failed, 1 when one did."""
    from ttc_eval.models.endpoint import api_key
    from ttc_eval.protocol.conformance import shown, suite
    from ttc_eval.protocol.conformance.probes import Plan

    plan = Plan(
        model=options.model,
        prompt=options.prompt,
        hard_prompt=options.hard_prompt,
        budget=options.budget,
        max_tokens=options.max_tokens,
        slack=options.slack,
        timeout_s=options.timeout,
    )
    token = api_key(options.token_env, options.token_file)
    report = asyncio.run(suite.run(options.url, plan, surface=options.surface, token=token))
    if options.json:
        import orjson

        print(orjson.dumps(report.plain(), option=orjson.OPT_INDENT_2).decode())
    else:
        from ttc_eval.sweep.summary import output_console

        shown.show(report, output_console())
    return 0 if report.conforms else 1
