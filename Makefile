# Each target does its own set-up; a fresh machine needs Python 3.11 or later and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# By a .pth file: a script in the folder above would take the checkout for the package otherwise.
EDITABLE := $(PIP_INSTALL) --config-settings editable_mode=compat --editable
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-lowest coverage bench docs lint format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/base.stamp: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "relation_tf needs Python 3.11 or later, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(EDITABLE) .
	@touch $@

$(VENV)/test.stamp: $(VENV)/base.stamp
	$(EDITABLE) '.[test]'
	@touch $@

$(VENV)/backends.stamp: $(VENV)/test.stamp
	$(EDITABLE) '.[test,jax,torch,ray,browser,notebooks,docs]'
	@command -v chromium || command -v chromium-browser || apt-get install --quiet --yes --no-install-recommends chromium \
	|| echo 'No Chromium could be installed: the tests that look at reports in a browser will be skipped.'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	$(EDITABLE) '.[dev]'
	@touch $@

$(VENV)/docs.stamp: $(VENV)/base.stamp
	$(EDITABLE) '.[docs]'
	@touch $@

demo: $(VENV)/base.stamp  ## train, compare and submit on embedded data, in a few minutes
	$(BIN)/relation-tf run demo --out runs/demo --jobs 2

test: $(VENV)/test.stamp  ## the tests that everyone runs, under 10 minutes on 2 cores
	$(PYTEST) -n 2 --dist worksteal -m 'not slow'

# On JAX nearly all the time is compilation; without optimizations it is half.
test-all: $(VENV)/backends.stamp  ## all tests: in a browser and on a cluster, broken inputs, JAX and PyTorch
	$(PYTEST) -n 2 --dist worksteal -m 'not fuzz' --durations=15
	$(PYTEST) -n 2 --dist worksteal -m fuzz tests/fuzz
	KERAS_BACKEND=jax JAX_DISABLE_MOST_OPTIMIZATIONS=true $(PYTEST) -n 2 --dist worksteal -m 'not tensorflow and not slow' tests/layers tests/networks tests/test_optimizers.py
	KERAS_BACKEND=torch $(PYTEST) -n 2 --dist worksteal -m 'not tensorflow and not slow' tests/layers tests/networks tests/test_optimizers.py

# In an environment of its own: pip knows no lowest versions, and constraints.txt holds the newest.
test-lowest: $(VENV)/base.stamp  ## the tests that everyone runs, with the lowest versions that are asked for
	$(BIN)/python -m venv --clear $(VENV)-lowest
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct \
	--config-settings editable_mode=compat --editable '.[test]'
	$(VENV)-lowest/bin/python -m pytest -n 2 --dist worksteal -o filterwarnings= -m 'not slow'

# Apart from test-all: it takes half as long again, and three times as long where processes are started.
coverage: $(VENV)/test.stamp  ## the tests that everyone runs, and the lines that they reach
	$(PYTEST) -n 2 --dist worksteal -m 'not slow' --cov --cov-report=term --cov-fail-under=90

bench: $(VENV)/backends.stamp  ## measure speed and memory, side by side; see benchmarks/README.md
	$(BIN)/python -m benchmarks

docs: $(VENV)/docs.stamp  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: $(VENV)/dev.stamp  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the environment and what the tools left (runs/ stays)
	rm -rf $(VENV) $(VENV)-lowest build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*
