# Every target sets up what it needs; `make` alone lists them.

# The first of python3.11, 3.12, 3.13, 3.14 and python3 that is new enough and runs, or the one given.
PYTHON ?=
# One more than cores, for tests wait for disks and for other processes.
JOBS ?= 3
# For `make bench`.
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin/python

# Installed again when one of these changes, and never otherwise. The folder counts too: a copied
# environment still points at the place it was copied from.
INPUTS := pyproject.toml constraints.txt $(wildcard setup.py)
KEY := $(shell { cat $(INPUTS); pwd; } | sha256sum | cut -c1-16)
INSTALLED := $(VENV)/.installed-$(KEY)

# A stamp is worth nothing if the environment's Python does not run any more.
RUNS := $(shell $(BIN) -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null)
ifneq ($(RUNS),True)
.PHONY: $(INSTALLED)
endif

PYTEST := $(BIN) -m pytest -n $(JOBS) --no-loadscope-reorder
COMPILED := LAKEBED_KERNELS=compiled
# Otherwise in memory, if there is room: see tests/temporary.py.
ON_DISK := TMPDIR=$${TMPDIR:-/tmp}
BUILD_KERNELS = { $(BIN) -m lakebed.kernels.build --check >/dev/null 2>&1 || $(BIN) -m lakebed.kernels.build; }

# What was compiled once, modules and tests, is used by all the processes that follow.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup kernels java archive clients check test test-slow bench demo format reference constraints dist quick-start clean
MAKEFLAGS += --no-print-directory

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: kernels java clients ## Create the environment, build the kernels, find or install a Java

# The build tools come first and the build uses them as they are, so that they are pinned too.
$(INSTALLED):
	@[ "$(RUNS)" = True ] || sh tools/make-venv $(VENV) $(PYTHON)
	@echo "installing"
	@$(BIN) -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel Cython
	@$(BIN) -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    --no-build-isolation -e '.[dev,spark]'
	@rm -f $(VENV)/.installed-*
	@touch $@

kernels: $(INSTALLED) ## Compile the kernels if their sources changed
	@$(BUILD_KERNELS)

java: $(INSTALLED)
	@$(BIN) tools/java.py

# Spark starts in half the time with it.
archive: java kernels
	@$(BIN) -m tools.java_archive

clients: $(INSTALLED)
	@$(BIN) tools/clients.py

check: kernels ## Format, lint, types, import rules and the quick tests: under two minutes
	@$(BIN) -m ruff format --check .
	@$(BIN) -m ruff check .
	@$(BIN) -m mypy
	@$(BIN) -c 'from importlinter.cli import lint_imports_command as run; run()'
	@$(COMPILED) $(PYTEST) -m 'not slow and not spark and not build and not process and not thorough and not sweep'

test: kernels archive clients ## All tests but the slow ones
	@$(COMPILED) $(PYTEST)

test-slow: kernels archive clients ## The long sweeps and soaks
	@$(ON_DISK) $(COMPILED) $(PYTEST) -m slow
	@$(ON_DISK) $(COMPILED) LAKEBED_HYPOTHESIS=searching $(PYTEST) -m 'not slow and not spark and not build'

bench: kernels ## The benchmarks, with ARGS="…"
	@$(COMPILED) $(BIN) -m bench $(ARGS)

# Works without a compiler, with the slower reference kernels, and as far as it can without a Java.
demo: $(INSTALLED) ## A guided run of a node, under three minutes: all counts must agree
	@$(BUILD_KERNELS) || echo "the kernels were not compiled: the slower reference ones are used"
	@$(BIN) tools/java.py || true
	@$(BIN) -m lakebed.cli demo

format: $(INSTALLED) ## Format the code and fix what can be fixed by machine
	@$(BIN) -m ruff format .
	@$(BIN) -m ruff check --fix .

reference: kernels ## Write docs/reference/ and the asyncio client again, from the code
	@$(BIN) -m tools.reference
	@$(BIN) -m tools.asynced

constraints: ## Pin the newest versions of everything again
	@sh tools/pin $(PYTHON)

dist: kernels ## Build the source archive and the wheel, for any Linux that its kernels run on
	@$(BIN) tools/dist.py

# With another interpreter than the environment's: make quick-start PYTHON=/path/to/python3
quick-start: kernels java ## Follow docs/quick-start.md with the wheel in an empty environment
	@LAKEBED_PACKAGING_PYTHON=$(PYTHON) $(COMPILED) $(BIN) -m pytest tests/packaging/test_quick_start.py

clean: ## Remove everything that was built, the environment included
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf src/*.egg-info spark-warehouse
	rm -f src/lakebed/kernels/_compiled*.so src/lakebed/kernels/_compiled.c
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +
