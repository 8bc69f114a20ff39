"""What works on this machine: what the default needs and lacks is broken, what is optional is off, and nothing is sent unasked."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from tests.servers.openai_chat import LIMITED, Reply
from tests.sweep.test_providers import serving
from ttc_eval import health
from ttc_eval.cli import main
from ttc_eval.commands.doctor import least_thinking
from ttc_eval.errors import UserError
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport

KEY = "sk-planted-0123456789"


def test_this_machine_can_run_what_it_is_tested_on() -> None:
    for check in (health.python(), health.packages(), health.price_book()):
        assert check.state == "ok", check
    assert "genai-prices" in health.price_book().said
    assert {"aiohttp", "duckdb", "ttc_eval"} <= set(health.required())
    assert "pytest" not in health.required()


def test_a_package_that_is_missing_is_named_as_broken() -> None:
    check = health.packages(["aiohttp", "no-such-package-here"])
    assert check.state == "broken"
    assert "no-such-package-here" in check.said


def test_results_must_be_writable(tmp_path: Path) -> None:
    assert health.results(tmp_path / "a" / "b").state == "ok"
    assert "GB free" in health.results(tmp_path).said
    file = tmp_path / "file"
    file.write_text("")
    assert health.results(file / "results").state == "broken"


def test_the_sandbox_is_tried_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install bubblewrap" in health.sandbox().said
    program = tmp_path / "bwrap"
    for script, state, said in (("exit 0", "off", "did not start"), ("echo no permission >&2; exit 1", "off", "no permission")):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        check = health.sandbox()
        assert check.state == state
        assert said in check.said


def test_the_default_model_is_the_one_that_matters() -> None:
    def missing() -> object:
        raise UserError("the engine is not installed")

    assert health.default_model(missing) == health.Check("default model", "broken", "the engine is not installed")
    assert health.embedded("mine", missing).state == "off"


def test_providers_are_told_apart_by_their_keys_and_no_key_is_shown() -> None:
    configs = {
        "a": {"api_key_env": "A_KEY"},
        "b": {"api_key_env": "B_KEY"},
        "c": {"api_key_env": "A_KEY"},
        "d": {"base_url": "http://127.0.0.1:8000/v1", "api_key_env": None},
    }
    checks = health.providers(configs, {"A_KEY": KEY, "B_KEY": "  "})
    assert [(check.name, check.state) for check in checks] == [("A_KEY", "ok"), ("B_KEY", "off"), ("local servers", "off")]
    assert "model=a, c" in checks[0].said
    assert KEY not in repr(checks)


def test_the_command_sends_nothing_and_shows_no_key(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tried: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *to: tried.append(to))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    code = main(["doctor"])
    out = capsys.readouterr().out
    assert tried == []
    assert KEY not in out
    assert code == int("broken" in out.split("nothing was sent")[0].replace("nothing that is used by default is broken", ""))
    assert "ok     OPENAI_API_KEY: set" in out
    assert "off    DEEPSEEK_API_KEY: not set" in out
    assert "genai-prices" in out


def test_a_broken_default_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").write_text("a file")
    assert main(["doctor"]) == 1
    assert "broken: results" in capsys.readouterr().out.replace("default model, results", "results")


def ping(url: str, *more: str) -> int:
    return main(["doctor", "--ping", "openai_compatible", f"model.base_url={url}", "model.model=m", *more])


def test_a_ping_is_one_tiny_request_and_tells_what_came_back(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(answer=lambda *_: Reply(text="OK", thinking="hm hm")) as server:
        assert ping(server.url, "model.price.own={input: 1, output: 2}") == 0
        assert server.count == 1
        assert server.bodies[0]["max_tokens"] == 16
    out = capsys.readouterr().out
    assert "answered (end_turn)" in out
    assert "10 input and 3 output tokens, 2 of them reasoning; $0.000016" in out


def test_a_ping_that_fails_says_how_and_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PLANTED", KEY)
    with serving(script=[LIMITED, Reply(status=401, body=f'{{"error":"bad key {KEY}"}}'.encode())]) as server:
        assert ping(server.url) == 1
        assert "rate_limited" in capsys.readouterr().out
        assert ping(server.url, "model.api_key_env=PLANTED") == 1
        assert server.count == 2
    out = capsys.readouterr().out
    assert "authentication" in out
    assert KEY not in out
    assert ping("http://127.0.0.1:9/v1", "model.api_key_env=NO_SUCH_KEY_HERE") == 2
    assert "NO_SUCH_KEY_HERE" in capsys.readouterr().err
    assert main(["doctor", "model.name=x"]) == 2


def test_a_simulated_model_can_be_pinged_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--ping", "simulated"]) == 0
    assert "answered" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("support", "thinking"),
    [
        (ThinkingSupport(), Thinking()),
        (ThinkingSupport(accepts=(ThinkingMode.BUDGET, ThinkingMode.OFF)), Thinking()),
        (ThinkingSupport(accepts=(ThinkingMode.EFFORT,), efforts=("low", "high")), Thinking(ThinkingMode.EFFORT, effort="low")),
        (ThinkingSupport(accepts=(ThinkingMode.ADAPTIVE,)), Thinking(ThinkingMode.ADAPTIVE)),
        (ThinkingSupport(accepts=(ThinkingMode.BUDGET,), min_budget=1024), Thinking(ThinkingMode.BUDGET, budget=1024)),
    ],
)
def test_a_ping_thinks_as_little_as_the_model_lets_it(support: ThinkingSupport, thinking: Thinking) -> None:
    assert least_thinking(support) == thinking
