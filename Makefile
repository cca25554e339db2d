# Every target makes the environment it needs in .venv; a stamp per extra, as new as pyproject.toml, makes the next run quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# One test process per core, but not more than memory allows: each imports the oracle.
TEST_JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -gt 8 ] && echo 8 || echo $$n)

.PHONY: help demo test check bench docs upstream stubs docstrings clean
.DELETE_ON_ERROR:

help:
	@echo "make demo | test | check | bench | docs | upstream | stubs | docstrings | clean"

demo: $(VENV)/.stamp-base
	$(BIN)/rushlight demo

test: $(VENV)/.stamp-test
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(ARGS)

check: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.stamp-test
	$(BIN)/python benchmarks/run.py $(ARGS)

docs: $(VENV)/.stamp-docs
	$(BIN)/python -m sphinx -W -n --keep-going -q -b html docs docs/_build/html
	$(BIN)/rushlight atlas --out docs/_build/html/atlas

upstream: $(VENV)/.stamp-test
	$(BIN)/rushlight upstream $(ARGS)

stubs: $(VENV)/.stamp-base
	$(BIN)/python -m rushlight.cli.stubs

docstrings: $(VENV)/.stamp-base
	$(BIN)/python -m rushlight.cli.documentation

clean:
	rm -rf $(VENV) build dist docs/_build docs/_plots docs/api .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-base: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/.stamp-%: pyproject.toml $(VENV)/.stamp-base
	$(PIP) -e '.[$*]'
	@touch $@
