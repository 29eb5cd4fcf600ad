# SPDX-License-Identifier: GPL-3.0-or-later
# `make help` lists the targets. All of them but help and clean install what is missing first (scripts/setup.sh).

PYTHON_BIN := .venv/bin/python
# Three workers keep two cores busy: a third of the time of the tests is waiting, for other processes and for deadlines.
PYTEST_OPTIONS := -n 3 --dist worksteal
PYTEST := $(PYTHON_BIN) -m pytest $(PYTEST_OPTIONS)
# The tests of what works without GNU Radio. Those among them that need it are left out where it is not installed.
NUMPY2_TESTS := tests/dsp tests/loop tests/rounds tests/record tests/calibration tests/fl_app
# Threads of a BLAS for small matrices only take turns with the blocks' own, and with other tests.
export OPENBLAS_NUM_THREADS ?= 1
# The tests start some hundred programs: compile our modules once, not in each of them.
unexport PYTHONDONTWRITEBYTECODE
# More for the command of a target, as in: make test ARGS="-k ofdm -x"
ARGS ?=
# Runs of test-repeat.
N ?= 10
# Length and schedule of soak; CONTRIBUTING.md says what it does.
MINUTES ?= 30
SEED ?= 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup test test-all test-numpy2 test-repeat soak lint check companion bench bench-compare docs train clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install what is missing: GNU Radio from apt, Python packages into .venv
	@bash scripts/setup.sh

test: setup ## run the tests, without the slow ones
	$(PYTEST) -m "not slow" $(ARGS)

test-all: setup ## run all tests, the slow ones too; then test-numpy2
	$(PYTEST) $(ARGS)
	@$(MAKE) --no-print-directory test-numpy2

# PYTHONPATH would come before the packages of this environment, those of the user before its NumPy.
test-numpy2: setup ## run the tests that need no GNU Radio under NumPy 2, in an environment of their own
	@bash scripts/setup.sh numpy2
	env -u PYTHONPATH PYTHONNOUSERSITE=1 .cache/numpy2/bin/python -m pytest $(PYTEST_OPTIONS) -m "not slow" $(NUMPY2_TESTS) $(ARGS)

# Every second run has busy loops beside it, one for each core. A stopped series goes on when it is called again.
test-repeat: setup ## run the tests N times and count the failures of each test, as in: make test-repeat N=10
	$(PYTHON_BIN) scripts/repeat_suite.py --runs $(N) -- $(PYTEST_OPTIONS) -m "not slow" $(ARGS)

soak: setup ## train on virtual benches under seeded faults: MINUTES=30 SEED=1
	$(PYTHON_BIN) -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(ARGS)

lint: setup ## ruff and mypy
	$(PYTHON_BIN) -m ruff check .
	$(PYTHON_BIN) -m ruff format --check .
	$(PYTHON_BIN) -m mypy

check: lint test ## all that must hold before a commit, and all that CI runs: lint, then the tests

# Run by the venv's interpreter, which Companion hands on to the flowgraphs that it runs: they find oac_blocks.
companion: setup ## open GNU Radio Companion with our blocks; ARGS=grc_flows/NAME.grc opens a flowgraph
	.venv/bin/oac-blocks companion $(ARGS)

bench: setup ## measure speed against what others wrote; keeps the figures in benchmarks/results
	$(PYTHON_BIN) -m benchmarks $(ARGS)

# `make bench-compare A B`: the words behind the target are its arguments, and no targets themselves.
ifeq (bench-compare,$(firstword $(MAKECMDGOALS)))
A ?= $(word 2,$(MAKECMDGOALS))
B ?= $(word 3,$(MAKECMDGOALS))
ifneq (,$(wordlist 2,3,$(MAKECMDGOALS)))
.PHONY: $(wordlist 2,3,$(MAKECMDGOALS))
$(wordlist 2,3,$(MAKECMDGOALS)): ; @:
endif
endif
bench-compare: setup ## compare the figures of two commits or files, as in: make bench-compare A B
	@$(PYTHON_BIN) -m benchmarks.record.compare $(A) $(B)

docs: setup ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(PYTHON_BIN) -m mkdocs build --strict $(ARGS)

train: setup ## train a small model over a simulated air
	.venv/bin/fl_app train configs/quickstart.toml $(ARGS)

clean: ## remove what was built; .venv stays
	rm -rf build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
