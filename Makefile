# Each target makes its own environment first: python3 with its venv module is all a machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
# uv installs in a tenth of the time, where it is on the PATH.
UV := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup run studio test quick coverage soak dojo mutants bodies check fix docs site bench lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Create .venv with the locked dependencies

$(READY): requirements.txt
	@echo "Setting up $(VENV) (once; one to two minutes): creating the environment"
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

studio: $(INSTALLED) ## Serve the agents with demo sessions, and a page to watch them: http://127.0.0.1:8123
	@$(BIN)/interlock serve --demo

test: $(INSTALLED) ## Run every test
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

QUICK := tests/unit tests/conformance

quick: $(INSTALLED) ## Run the fast tests: about a minute
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not hypothesis" $(QUICK) $(ARGS)

COVERING := tests/unit/contract tests/unit/runtime tests/unit/dispatch tests/unit/verification/test_proofs.py tests/engine tests/stores/test_turns.py \
	tests/conformance/test_document_parser.py tests/conformance/test_document_changes.py

coverage: $(INSTALLED) ## Find branches of contract/, engine/ and runtime/ that no test takes
	@# What is tested on both engines is taken on one of them, and nothing depends on chance.
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov -m "not hypothesis" -k "not [langgraph" $(COVERING) $(ARGS)

SOAK := INTERLOCK_KILLS=$${INTERLOCK_KILLS:-5000} INTERLOCK_FREEZES=$${INTERLOCK_FREEZES:-300} INTERLOCK_TURNS=$${INTERLOCK_TURNS:-10000} \
	INTERLOCK_SCHEDULES=$${INTERLOCK_SCHEDULES:-10000000} INTERLOCK_BAD_REQUESTS=$${INTERLOCK_BAD_REQUESTS:-50000} \
	INTERLOCK_STREAMS=$${INTERLOCK_STREAMS:-200}

soak: $(INSTALLED) ## Kill, freeze and search for hours; a failure names its seed, INTERLOCK_SEED repeats it
	@$(SOAK) $(BIN)/python -m pytest -s -q --timeout 0 tests/faults tests/server/test_many_bad_requests.py tests/server/test_serve_command.py $(ARGS)

dojo: $(INSTALLED) ## Run all 949 attacks of AgentDojo, with policies and without: up to half an hour
	@INTERLOCK_DOJO_SHARE=1 $(BIN)/python -m pytest -s -q --timeout 0 -p no:xdist tests/interop/test_agentdojo.py $(ARGS)

mutants: $(INSTALLED) ## Change the five agents in 450 places, and list what no proof, example or certificate finds: an hour
	@INTERLOCK_MUTANTS=$${INTERLOCK_MUTANTS:-110} $(BIN)/python -m pytest -s -q --timeout 0 -p no:xdist tests/mutants $(ARGS)

bodies: $(INSTALLED) ## Generate 50,000 bodies of nodes, and run those that the prover calls independent: an hour
	@INTERLOCK_TEST_BODIES=50000 $(BIN)/python -m pytest -q --timeout 0 -p no:xdist tests/unit/verification/test_generated_bodies.py $(ARGS)

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

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
IMAGE := $(addprefix --extra ,agents jwt mcp openai opentelemetry postgres server)

lock: $(INSTALLED) ## Compile requirements.txt anew from pyproject.toml, and from that what the image has
	@$(BIN)/$(COMPILE) --all-extras --group dev pyproject.toml --output-file requirements.txt
	@$(BIN)/$(COMPILE) --constraint requirements.txt $(IMAGE) pyproject.toml deploy/build.in --output-file deploy/requirements.txt

clean: ## Remove what was built
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .schemathesis
