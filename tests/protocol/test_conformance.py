"""The conformance suite against servers that keep the protocol, and servers that break it in one way each."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.bad_servers import BadServer
from ttc_eval.cli import main
from ttc_eval.errors import UserError
from ttc_eval.protocol.conformance.checks import CHECKS
from ttc_eval.protocol.conformance.findings import Verdict
from ttc_eval.protocol.conformance.probes import Plan
from ttc_eval.protocol.conformance.requirements import REQUIREMENTS, Level
from ttc_eval.protocol.conformance.suite import Report, endpoints, run
from ttc_eval.protocol.schemas import request_violation

# A fault of the server, and exactly the checks that must fail for it.
FAULTS = {
    "late_thinking": {"content.order"},
    "overrun": {"budget.enforced"},
    "hidden_overrun": {"budget.ceases"},
    "text_after_exhaustion": {"exhaustion.no_text"},
    "answers_at_budget": {"exhaustion.terminates"},
    "unsignalled": {"exhaustion.signalled"},
    "stops_early": {"exhaustion.thinking_tokens"},
    "no_usage": {"usage.present"},
    "no_input_tokens": {"usage.input_tokens"},
    "count_of_text": {"usage.input_tokens"},
    "no_output_tokens": {"usage.output_tokens"},
    "no_thinking_tokens": {"usage.thinking_tokens", "exhaustion.thinking_tokens"},
    "no_cache_count": {"usage.cache_creation_input_tokens"},
    "cache_above_input": {"usage.cache_creation_input_tokens"},
    "wrong_type": {"final.type"},
    "no_id": {"final.id"},
    "same_id": {"final.id_unique"},
    "model_number": {"final.model"},
    "wrong_stop_reason": {"final.stop_reason"},
    "not_streaming": {"stream.events"},
    "event_not_json": {"stream.events"},
    "wrong_content_type": {"stream.events"},
    "cut_stream": {"stream.events"},
    "no_final": {"stream.final_message"},
    "object_after_final": {"stream.final_message"},
    "other_block_type": {"content.types"},
    "block_without_text": {"content.blocks"},
    "content_not_assembled": {"content.assembled"},
    "stop_applies_to_thinking": {"stop_sequences.not_thinking"},
    "ignores_stops": {"stop_sequences.text"},
    "ignores_max_tokens": {"max_tokens.text"},
    "shared_max_tokens": {"max_tokens.distinct"},
    "thinks_unasked": {"request.ordinary"},
    "any_type": {"request.thinking_type"},
    "no_thinking_at_all": {"request.accepted", "errors.predictable", "errors.budget"},
    "crashes_on_invalid": {"errors.predictable"},
    "wrong_error_param": {"errors.budget"},
    "wrong_error_status": {"errors.budget"},
}
WAIT_FAULTS = {
    "wait_not_at_end": {"wait.at_end"},
    "text_after_wait": {"wait.hard_stop"},
    "wait_wrong_reason": {"wait.stop_reason"},
    "overrun": {"budget.enforced"},
}
# What stands for a kept requirement by construction: it cannot fail on its own.
IMPLIED = {"exhaustion.stop_reason", "usage.cache_zero_if_unused"}


def checked(fault: str, wait_form: bool = False) -> tuple[Report, BadServer]:
    async def scenario() -> tuple[Report, BadServer]:
        async with BadServer(fault, wait_form=wait_form) as server:
            return await run(server.url, Plan("words", timeout_s=20)), server

    return asyncio.run(scenario())


def failed(report: Report, surface: str) -> set[str]:
    (one,) = (one for one in report.surfaces if one.surface == surface)
    return {name for name, finding in one.findings.items() if finding.verdict is Verdict.FAILED}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_with_one_fault_fails_the_check_for_it_and_no_other(fault: str) -> None:
    report, _ = checked(fault)
    assert not report.conforms
    assert failed(report, "messages") == failed(report, "chat") == FAULTS[fault]


@pytest.mark.parametrize("fault", WAIT_FAULTS)
def test_a_fault_in_the_fallback_form_fails_the_check_for_it_and_no_other(fault: str) -> None:
    report, _ = checked(fault, wait_form=True)
    assert failed(report, "messages") == failed(report, "chat") == WAIT_FAULTS[fault]


def test_a_stream_whose_chunks_have_another_id_than_its_end_fails() -> None:
    report, _ = checked("chunk_ids_differ")
    assert failed(report, "chat") == {"final.id_unique"}


@pytest.mark.parametrize("wait_form", [False, True])
def test_a_compliant_server_passes_and_what_cannot_be_seen_is_not_passed(wait_form: bool) -> None:
    report, _ = checked("", wait_form)
    assert report.conforms
    for one in report.surfaces:
        unseen = {name for name, finding in one.findings.items() if finding.verdict is Verdict.NOT_OBSERVABLE}
        hidden = {name for name, requirement in REQUIREMENTS.items() if requirement.unobservable}
        other_form = {"exhaustion.stop_reason", "exhaustion.no_text", "exhaustion.thinking_tokens"}
        other_form = other_form if wait_form else {"wait.at_end", "wait.hard_stop", "wait.stop_reason"}
        assert unseen == hidden | other_form
        assert all(finding.reason for finding in one.findings.values())


def test_every_requirement_has_a_check_or_says_why_not_and_every_check_has_a_server_that_fails_it() -> None:
    checkable = {name for name, requirement in REQUIREMENTS.items() if requirement.unobservable is None}
    assert checkable == set(CHECKS)
    assert set().union(*FAULTS.values(), *WAIT_FAULTS.values()) == checkable - IMPLIED


def test_the_table_holds_every_keyword_of_the_published_text(shared: Path) -> None:
    text = next((shared / "seeds").glob("000_*")).read_text(encoding="utf-8")
    text = text[: text.index("Agentic RAG")]
    # One sentence of the text is stated twice ("MUST be signaled"), and one is the rule for all servers as such.
    sentences = " ".join(requirement.sentence for requirement in REQUIREMENTS.values())
    for keyword in ("MUST NOT contain", "SHOULD retry", "MUST cease", "MUST enforce", "MUST terminate", "MUST signal", "MUST be signaled"):
        assert keyword in text
        assert keyword in sentences
    for phrase in (
        "MUST process",
        "MUST conform",
        "MUST internally track",
        "MUST generate",
        "MUST act",
        "MUST parse",
        "MUST end",
        "MUST handle",
    ):
        assert phrase in text
        assert phrase in sentences
    for phrase in (
        "MUST be `0`",
        "MUST be a single JSON object",
        "MUST be a JSON object",
        "Must be a model",
        "Must be set to",
        "Must be the exact",
    ):
        assert phrase in text
        assert phrase in sentences


def test_a_cache_pass_above_zero_is_not_called_unused() -> None:
    report, _ = checked("cache_used")
    assert report.conforms
    assert report.surfaces[0].findings["usage.cache_zero_if_unused"].verdict is Verdict.NOT_OBSERVABLE


def test_what_is_sent_keeps_the_request_schema_but_for_the_probes_of_invalid_requests() -> None:
    _, server = checked("")
    valid = [body for body in server.bodies if request_violation(body) is None]
    wrong = [body for body in server.bodies if request_violation(body) is not None]
    assert len(valid) >= 14
    budgets = [body.get("thinking", {}).get("budget_tokens", "none") for body in wrong]
    assert sorted(map(str, budgets)) == sorted(["none", "0", "many", "256", "none"] * 2), (
        "no body, no budget, 0, text, a wrong type; per surface"
    )


def test_the_command_tells_by_its_exit_code_and_shows_the_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(fault: str, *options: str) -> int:
        async with BadServer(fault) as server:
            return await asyncio.to_thread(main, ["conformance", server.url, "--timeout", "20", *options])

    assert asyncio.run(scenario("")) == 0
    assert "conforms to TTC-v2" in capsys.readouterr().out
    assert asyncio.run(scenario("text_after_exhaustion", "--surface", "chat")) == 1
    shown = capsys.readouterr().out
    assert "MUST NOT contain any blocks of type text" in shown
    assert '"budget_tokens":1' in shown, "what was sent"
    assert '"stop_reason":"budget_exceeded"' in shown, "what came"
    assert asyncio.run(scenario("wrong_type", "--json")) == 1
    plain = json.loads(capsys.readouterr().out)
    assert (plain["protocol"], plain["model"], plain["conforms"]) == ("TTC-v2", "words", False)
    for surface in plain["surfaces"]:
        checks = {check["name"]: check for check in surface["checks"]}
        assert set(checks) == set(REQUIREMENTS)
        assert checks["final.type"]["result"] == "failed"
        assert checks["final.type"]["evidence"][0]["final_message"]["type"] == "message"
        assert checks["client.retry"]["level"] == Level.SHOULD.value


def test_a_users_mistake_is_told_in_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[tuple[list[str], str]] = [
        (["http://127.0.0.1:9"], "is the server running"),
        (["http://127.0.0.1:9", "--model", "m"], "is the server running"),
        (["ftp://x"], "http(s)"),
        (["http://u:p@127.0.0.1"], "no user"),
        (["http://127.0.0.1:9", "--budget", "0"], "--budget"),
        (["http://127.0.0.1:9", "--timeout", "nan"], "--timeout"),
        (["http://127.0.0.1:9", "--model", ""], "--model"),
        (["http://127.0.0.1:9/v1/messages", "--surface", "chat", "--model", "m"], "surface"),
        (["http://127.0.0.1:9", "--token-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
    ]
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    for arguments, words in wrong:
        assert main(["conformance", *arguments]) == 2, arguments
        message = capsys.readouterr().err
        assert words in message
        assert len(message.splitlines()) <= 2


def test_a_server_without_the_surfaces_is_a_users_mistake() -> None:
    async def scenario() -> None:
        async with BadServer() as server:
            await run(f"{server.url}/elsewhere", Plan("words"))

    with pytest.raises(UserError, match="none of the surfaces"):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h", {"messages": "http://h/v1/messages", "chat": "http://h/v1/chat/completions"}),
        ("http://h/v1/", {"messages": "http://h/v1/messages", "chat": "http://h/v1/chat/completions"}),
        ("http://h/api/chat/completions", {"chat": "http://h/api/chat/completions"}),
        ("http://h/api/v1/messages", {"messages": "http://h/api/v1/messages"}),
    ],
)
def test_a_url_names_a_server_or_one_of_its_endpoints(url: str, found: dict[str, Any]) -> None:
    assert endpoints(url, None) == found


def test_a_token_that_a_server_repeats_is_not_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "planted-token-0123456789"
    monkeypatch.setenv("PLANTED_TOKEN", secret)

    class Echo(BadServer):
        def _reply(self, path: str, body: bytes) -> tuple[int, str, bytes]:
            status, kind, payload = super()._reply(path, body)
            return (status, kind, payload) if path == "/v1/models" else (500, kind, secret.encode())

    async def scenario() -> int:
        async with Echo() as server:
            return await asyncio.to_thread(main, ["conformance", server.url, "--json", "--token-env", "PLANTED_TOKEN"])

    assert asyncio.run(scenario()) == 1
    captured = capsys.readouterr()
    assert "[redacted]" in captured.out
    assert secret not in captured.out + captured.err
