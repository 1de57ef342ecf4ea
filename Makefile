# Two commands: `make demo` and `make test`. Each makes what it needs and can be run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-runtime
STAMP := $(VENV)/.installed
INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 3

.PHONY: help demo test facts env kafka bench docs clean
.DEFAULT_GOAL := help

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(RUNTIME) ## the tour: three stories on embedded clusters; installs kcoord alone
	$(BIN)/kcoord demo

test: env kafka ## every test, lint and types included; three files of tests at a time, as they often wait
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

facts: env ## what is known of Kafka's groups, and which tests show it
	$(BIN)/python -m tests.facts

env: $(STAMP) ## the virtual environment in .venv, with Spark and what the tests need

kafka: env ## Apache Kafka's jars, into the user's cache folder
	@if [ "$$KCOORD_TEST_NO_KAFKA" = 1 ]; then echo "KCOORD_TEST_NO_KAFKA=1: Kafka's jars are not fetched"; \
	else $(BIN)/python -m kcoord.testing.jars; fi

bench: env kafka ## the benchmarks: ratios against Apache Kafka, as tables
	$(BIN)/python -m tests.bench

docs: env ## the generated parts of docs/
	$(BIN)/python -m kcoord.api > docs/protocol.md
	$(BIN)/python -m kcoord.pipeline > docs/tables.md

clean: ## remove the virtual environment and the caches of the tools
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# Each stamp is made by one pip install. What the tests need includes the runtime, so that a demo after a test installs
# nothing; a test after a demo adds to the same environment what is missing.
$(RUNTIME): pyproject.toml | $(BIN)/python
	@echo "installing kcoord"
	$(INSTALL) --editable .
	@touch $@

$(STAMP): pyproject.toml | $(BIN)/python
	@echo "installing kcoord, Spark and what its tests need"
	$(INSTALL) --editable ".[test,pipeline]"
	@touch $(RUNTIME) $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kcoord needs Python 3.11 or newer: install the package python3.11 (and python3.11-venv), or say make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "making the virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
