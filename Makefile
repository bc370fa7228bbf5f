# Each target installs what it needs; a new machine needs only make and Python 3.11 to 3.13.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RELEASED := $(VENV)-release
RUNS ?= runs
PYTHONS ?= python3.11 python3.12 python3.13
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Installs with a .pth file: otherwise a script in the parent folder imports the checkout as the package.
EDITABLE := $(PIP_INSTALL) --config-settings editable_mode=compat --editable
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
# Compilation dominates the time on JAX; without XLA optimizations it takes half as long.
JAX := KERAS_BACKEND=jax JAX_DISABLE_MOST_OPTIMIZATIONS=true
TORCH := KERAS_BACKEND=torch
# Together these tests cover masks, gradients, dropout, saving and loops.
FEW_BACKEND_TESTS := tests/layers/test_keras_contract.py tests/layers/test_released_code.py tests/networks/test_recurrent.py
BACKEND_TESTS := tests/layers tests/networks tests/test_optimizers.py
# If a part fails, the others run too; then make names it and fails.
EACH_PART := @$(MAKE) --no-print-directory --keep-going --jobs=1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-lowest coverage bench results-archive size docs release try-wheel lint format clean
.PHONY: fast-on-tensorflow few-on-jax few-on-torch all-on-tensorflow fuzz layers-on-jax layers-on-torch

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/base.stamp: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "relation_tf needs Python 3.11 to 3.13, this is " + sys.version.split()[0] + "; try make PYTHON=python3.13")'
	@echo 'Installing relation_tf and its dependencies into $(VENV); this takes a few minutes.'
	$(PYTHON) -m venv $(VENV)
	$(EDITABLE) '.[tensorflow]'
	@touch $@

$(VENV)/test.stamp: $(VENV)/base.stamp
	$(EDITABLE) '.[test,jax,torch]'
	@touch $@

$(VENV)/all.stamp: $(VENV)/test.stamp
	$(EDITABLE) '.[test,jax,torch,browser,notebooks,docs,datasets,examples,release]'
	@command -v chromium || command -v chromium-browser \
	|| (apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends chromium) \
	|| echo 'No Chromium could be installed: the tests that look at reports in a browser will be skipped.'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	$(EDITABLE) '.[dev]'
	@touch $@

$(VENV)/release.stamp: $(VENV)/base.stamp
	$(EDITABLE) '.[release]'
	@touch $@

$(VENV)/docs.stamp: $(VENV)/base.stamp
	$(EDITABLE) '.[docs]'
	@touch $@

demo: $(VENV)/base.stamp  ## train, compare and submit on built-in data, in a few minutes
	$(BIN)/relation-tf run demo --out runs/demo --jobs 2
	@echo 'The commands are in $(BIN). To type them without this path: source $(BIN)/activate'

test: $(VENV)/test.stamp  ## fast tests on TensorFlow, a few on JAX and PyTorch; about 8 minutes on 2 cores
	$(EACH_PART) fast-on-tensorflow few-on-jax few-on-torch

test-all: $(VENV)/all.stamp  ## all tests: browser, 10,000 broken inputs, all layers on JAX and PyTorch
	$(EACH_PART) all-on-tensorflow fuzz layers-on-jax layers-on-torch

fast-on-tensorflow:
	$(PYTEST) -m 'not slow and not fuzz' --durations=30

few-on-jax:
	$(JAX) $(PYTEST) -m 'not tensorflow and not slow' $(FEW_BACKEND_TESTS)

few-on-torch:
	$(TORCH) $(PYTEST) -m 'not tensorflow and not slow' $(FEW_BACKEND_TESTS)

all-on-tensorflow:
	$(PYTEST) -m 'not fuzz' --durations=30

fuzz:
	$(PYTEST) -m fuzz tests/fuzz

layers-on-jax:
	$(JAX) $(PYTEST) -m 'not tensorflow and (not slow or every_backend)' $(BACKEND_TESTS)

layers-on-torch:
	$(TORCH) $(PYTEST) -m 'not tensorflow and (not slow or every_backend)' $(BACKEND_TESTS)

# In a separate environment: pip cannot resolve lowest versions, and constraints.txt pins the newest.
test-lowest: $(VENV)/base.stamp  ## fast tests with the lowest supported versions of the dependencies
	$(BIN)/python -m venv --clear $(VENV)-lowest
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct \
	--config-settings editable_mode=compat --editable '.[test]'
	$(VENV)-lowest/bin/python -m pytest -n 2 --dist worksteal -o filterwarnings= -m 'not slow and not fuzz'

# Not part of test-all: coverage makes tests 1.5 times slower, and tests of processes 3 times.
coverage: $(VENV)/test.stamp  ## fast tests with line coverage, at least 90 %
	$(PYTEST) -m 'not slow and not fuzz' --cov --cov-report=term --cov-fail-under=90

bench: $(VENV)/all.stamp  ## measure speed and memory; see benchmarks/README.md
	$(BIN)/python -m benchmarks

results-archive: $(VENV)/base.stamp  ## write the reports of all run folders in RUNS (default: runs) to build/results.tar.gz
	mkdir -p build
	for suite in $(RUNS)/*/suite.toml; do $(BIN)/relation-tf report "$$(dirname "$$suite")" || exit 1; done
	tar --create --gzip --file build/results.tar.gz --directory $(RUNS) $$(cd $(RUNS) && ls -d */report)

size:  ## count code lines, modules and tests that assert prose
	@$(PYTHON) tests/size.py

docs: $(VENV)/docs.stamp  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

INSTALL_RELEASED := $(RELEASED)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RELEASED_BIN := $(abspath $(RELEASED))/bin
CALL_LAYER := import numpy; from relation_tf.layers import Relation; print(Relation(4)(numpy.ones((1, 3, 8), "float32")).shape)

release: $(VENV)/release.stamp  ## build the sdist and the wheel in dist/, and try the wheel with each of PYTHONS
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	for python in $(PYTHONS); do \
	if $$python --version; then $(MAKE) --no-print-directory try-wheel PYTHON=$$python || exit 1; \
	else echo "$$python does not start: not tested"; fi; done

# The wheel runs in dist/: from the checkout, Python would import the checkout. TensorFlow comes last.
try-wheel:
	$(PYTHON) -m venv --clear $(RELEASED)
	$(INSTALL_RELEASED) dist/*.whl
	cd dist && $(RELEASED_BIN)/relation-tf suites
	cd dist && $(RELEASED_BIN)/relation-tf compare ../results/glue-small-smoothed/scores.csv --out compared
	$(INSTALL_RELEASED) "$$(echo dist/*.whl)[jax,torch]"
	cd dist && KERAS_BACKEND=jax $(RELEASED_BIN)/python -c '$(CALL_LAYER)'
	cd dist && KERAS_BACKEND=torch $(RELEASED_BIN)/python -c '$(CALL_LAYER)'
	$(INSTALL_RELEASED) "$$(echo dist/*.whl)[tensorflow]"
	cd dist && $(RELEASED_BIN)/relation-tf run demo --tasks RTE --methods attention-64,relation-64 --out demo
	rm -rf dist/compared dist/demo

lint: $(VENV)/dev.stamp  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp  ## fix and format with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the environment and build files (keeps runs/)
	rm -rf $(VENV) $(VENV)-lowest $(RELEASED) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*
