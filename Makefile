# Everything a newcomer needs is `make sweep` and `make test`; both set up what is missing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARGS   ?=
STUDY  ?=

.DEFAULT_GOAL := help
.PHONY: help setup sweep test lint lab report bench clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  Options of a sweep: make sweep ARGS='strategy=single thinking.budget=16'"

setup: $(READY)  ## make the virtual environment and install everything, pinned

$(READY): pyproject.toml constraints.txt tools/install.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tools/install.sh
	@touch $@

sweep: $(READY)  ## the quick-start sweep on the lab model; ARGS='…' overrides
	@$(BIN)/ttc-eval sweep -m experiment=quickstart $(ARGS)

test: $(READY)  ## the whole test suite
	@$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(READY)  ## linter, formatter, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

lab: $(READY)  ## Jupyter on the last study (STUDY=results/NAME.duckdb for another)
	@TTC_EVAL_STUDY="$(abspath $(STUDY))" $(BIN)/jupyter lab notebooks/01_quickstart.ipynb

report: $(READY)  ## figures and tables of the last study (STUDY=results/NAME.duckdb for another)
	@$(BIN)/ttc-eval report $(STUDY)

bench: $(READY)  ## benchmarks: throughput, streams, estimators, views, the lab model, start-up time
	@$(BIN)/python benchmarks/throughput.py
	@$(BIN)/python benchmarks/streams.py
	@$(BIN)/python benchmarks/estimators.py
	@$(BIN)/python benchmarks/views.py
	@$(BIN)/python benchmarks/lab.py
	@$(BIN)/python benchmarks/startup.py

clean:  ## remove the virtual environment and caches; results stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
