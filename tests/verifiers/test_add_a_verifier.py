"""The guide's own example of a verifier, in a folder outside the package, run as the guide says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import ttc_eval.verifiers as package
from ttc_eval.study import open_study

GUIDE = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text("utf-8")


def test_the_guides_verifier_runs(tmp_path: Path) -> None:
    for language in ("python", "yaml"):
        [(name, text)] = re.findall(rf"```{language}\n# (\S+)\n(.*?)```", GUIDE, re.DOTALL)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    [line] = re.findall(r"^PYTHONPATH=\. ttc-eval (sweep .*)$", GUIDE, re.MULTILINE)
    command = [sys.executable, "-m", "ttc_eval.cli", *shlex.split(line), "study=guide"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert found.returncode == 0, found.stderr
    study = open_study(tmp_path / "results" / "guide.duckdb")
    assert study.sql("SELECT answer FROM solutions")["answer"].tolist() == ["42"]
    assert study.sql("SELECT verifier, score FROM scores ORDER BY position").values.tolist() == [["parity", 0.0], ["parity", 1.0]]


def test_every_shipped_verifier_states_its_evidence_and_is_in_the_guide() -> None:
    configs = {path.stem for path in (Path(__file__).parents[2] / "configs" / "verifier").glob("*.yaml")}
    table = GUIDE.split("| `verifier=` |")[1].split("\n\n")[0]
    assert configs == set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    for name in package.__all__:
        shipped = getattr(package, name)
        if "evidence" in vars(shipped) and "Protocol" not in str(shipped.__mro__):
            assert len(shipped.evidence) > 10, name
