# Everything a person runs. `make run` and `make test` set up whatever is missing first; a second call sets up nothing.

PYTHON ?= python3.11
# What `make run` does; for example: make run ARGS="--benchmark aiw --base-model smollm2 --budget 30m"
ARGS ?= --benchmark syllogism --base-model smollm2 --budget 14m

PY := .venv/bin/python
# Tests without engines share the cores. A real engine takes all of them, so those tests run one after the other.
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist worksteal
.DEFAULT_GOAL := help
.PHONY: help app run test test-fast check bench dojo setup app-environment engines lock

help:  ## this list
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: engines  ## fine-tune the embedded model end to end and print the result
	@$(PY) -m graph.run $(ARGS)

app: app-environment  ## the page: start, watch and steer runs in a browser
	@$(PY) app.py $(APP)

test: engines  ## all tests, with the real engines
	@$(PY) -m pytest $(SIDE_BY_SIDE) -m "not engine" && quick=passed || quick=failed; \
	$(PY) -m pytest -m engine && real=passed || real=failed; \
	echo "tests without engines: $$quick; tests with the real engines: $$real"; \
	[ "$$quick $$real" = "passed passed" ]

test-fast: app-environment  ## the quick tests, which need no engine
	@$(PY) -m pytest $(SIDE_BY_SIDE) -m "not engine and not slow"

check: app-environment  ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m mypy

bench: engines  ## our figures beside their references
	@$(PY) -m tests.bench

dojo: engines  ## compare ways to plan at one wall-clock budget (hours; goes on where it stopped)
	@$(PY) -m graph.dojo $(DOJO)

setup: app-environment  ## install what is missing and import again what every engine needs
	@$(PY) -m tools.engines.setup --verify

app-environment:
	@PYTHON="$(PYTHON)" .ci/setup-app

engines: app-environment
	@$(PY) -m tools.engines.setup

lock: app-environment  ## pin the app's packages anew from pyproject.toml
	@echo '# The app environment with its development tools: every package pinned. Made by `make lock` from pyproject.toml.' > .venv/lock.txt
	@$(PY) -m uv pip compile pyproject.toml --extra dev --python-version 3.11 --no-header --no-annotate --no-emit-index-url --quiet >> .venv/lock.txt
	@mv .venv/lock.txt .ci/requirements-app.txt
