# Every target sets up all that it needs: a Python of 3.11 or newer is enough. The virtual environment is .venv.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The first that runs and is new enough; `make PYTHON=…` overrides.
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3.14 python3 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
# One process more than there are cores, as some tests wait for what they started.
PARALLEL := --numprocesses=$(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) + 1 ))) --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes: compiling kbsearch anew in each takes longer than what they do.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-quality lint format head docs mutants fuzz faults bench image test-docker test-servers clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "kbsearch needs Python 3.11 or newer (make PYTHON=/path/to/python3)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --editable '.[local,evaluate,docs,dev]'
	@touch $@

demo: $(STAMP) ## embedded PostgreSQL, Python's language reference, three questions, every page checked
	$(BIN)/kbsearch demo

test: $(STAMP) ## all tests but those of test-quality and test-docker, on a process more than there are cores, at most four
	$(BIN)/python -m pytest $(PARALLEL) -m "not docker and not quality and not large"

test-quality: $(STAMP) ## how well the questions of whole collections are answered; plans of 100,000 chunks
	$(BIN)/python -m pytest $(PARALLEL) -m "quality or large"

lint: $(STAMP) ## ruff, mypy, sqlfluff, frozen files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/sqlfluff lint --disable-progress-bar sql/schema sql/functions
	$(BIN)/python -m tools.freeze check

format: $(STAMP) ## let ruff format the Python files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

head: $(STAMP) ## write sql/head.sql anew
	$(BIN)/python -m tools.head

docs: $(STAMP) ## the documentation site, in site/
	$(BIN)/python -m tools.docs

mutants: $(STAMP) ## break the SQL on purpose, in throw-away databases: every mutant must be killed
	$(BIN)/python -m tools.mutants

fuzz: $(STAMP) ## call every public function with hostile values; stop with Ctrl-C and run again to go on
	$(BIN)/python -m tests.fuzz

faults: $(STAMP) ## kill the server 100 times under load, hunt deadlocks, upgrade beside searches; writes docs/reliability.md
	$(BIN)/python -m tests.faults

bench: $(STAMP) ## speed, recall and pages beside what people use instead: some 20 GB of disk, an hour or two; stopped, it goes on where it was
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

image: $(STAMP) ## Docker images kbsearch-database and kbsearch-cli
	PYTHON=$(BIN)/python docker/build.sh

test-docker: image ## what needs a Docker engine: tests of the images, of the plugin's containers, and the property tests in a container
	KBSEARCH_DOCKER=required $(BIN)/python -m pytest $(PARALLEL) -m docker

test-servers: image ## the property tests on PostgreSQL 15, 17 and 18; what servers that won't do are told
	for kind in 13-bare 15-bare 15 17 18; do docker/base-image.sh $$kind || exit; done
	KBSEARCH_DOCKER=required $(BIN)/python -m pytest tests/docker/test_servers.py tests/docker/test_reproducible.py
	for major in 15 17 18; do \
		$(BIN)/python -m pytest $(PARALLEL) --kbsearch-server=docker --kbsearch-image=pgvector/pgvector:pg$$major tests/properties || exit; \
	done

clean: ## stop the embedded server, remove the virtual environment and the caches
	@if test -x $(BIN)/kbsearch; then $(BIN)/kbsearch db stop || echo "The embedded server was not stopped." >&2; fi
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
