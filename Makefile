# Each target makes its own environment first: python3 with its venv module is all a machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
# uv installs in a tenth of the time, where it is on the PATH.
UV := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup run test quick coverage soak check fix docs site bench lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Create .venv with the locked dependencies

$(READY): requirements.txt
	@echo "Setting up $(VENV) (once; about a minute): creating the environment"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "Setting up $(VENV): installing $$(grep -c '==' requirements.txt) locked packages with $(if $(UV),uv,pip)"
	@$(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install --progress-bar on --disable-pip-version-check) \
		--no-deps --require-hashes -r requirements.txt
	@touch $(READY)

# The commands and the agents are found by entry points, which are copied from pyproject.toml when the package is installed.
$(INSTALLED): $(READY) pyproject.toml
	@echo "Setting up $(VENV): installing Interlock"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(INSTALLED)

run: $(INSTALLED) ## Run the tour: example turns of each agent
	@$(BIN)/interlock tour

test: $(INSTALLED) ## Run every test
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

QUICK := tests/unit tests/conformance

quick: $(INSTALLED) ## Run the fast tests: about a minute
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not hypothesis" $(QUICK) $(ARGS)

COVERING := tests/unit/contract tests/unit/runtime tests/engine tests/conformance/test_document_parser.py tests/conformance/test_document_changes.py

coverage: $(INSTALLED) ## Find branches of contract/, engine/ and runtime/ that no test takes
	@# What is tested on both engines is taken on one of them, and nothing depends on chance.
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov -m "not hypothesis" -k "not [langgraph" $(COVERING) $(ARGS)

soak: $(INSTALLED) ## Kill and freeze processes for hours; a failure names its seed, INTERLOCK_SEED repeats it
	@INTERLOCK_KILLS=$${INTERLOCK_KILLS:-5000} INTERLOCK_FREEZES=$${INTERLOCK_FREEZES:-300} INTERLOCK_TURNS=$${INTERLOCK_TURNS:-10000} \
		$(BIN)/python -m pytest -s -q tests/faults --deselect tests/faults/test_simulator.py $(ARGS)

check: $(INSTALLED) ## Lint, types, import direction, generated docs
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/docs.py --check

fix: $(INSTALLED) ## Format, and repair what the linter can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(INSTALLED) ## Write the transcript, the pictures and the generated parts of the docs, and build the site
	@$(BIN)/python scripts/transcript.py
	@$(BIN)/python scripts/docs.py
	@$(MAKE) --no-print-directory site

site: $(INSTALLED) ## Build the docs as a website into build/site
	@$(BIN)/python scripts/build_site.py
	@echo "build/site is built. To read it with search: $(BIN)/python -m http.server --directory build/site"

bench: $(INSTALLED) ## Measure; a table here, JSON in build/bench.json
	@$(BIN)/python benchmarks/run.py

lock: $(INSTALLED) ## Compile requirements.txt anew from pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--all-extras --group dev pyproject.toml --output-file requirements.txt

clean: ## Remove what was built
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
