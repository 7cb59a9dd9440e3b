.DEFAULT_GOAL := help
.PHONY: help bootstrap quickstart test test-full lint format lock

BIN := .venv/bin
# Each worker imports jax and levanter (about 10 s and 1 GB), so more than a few don't pay.
WORKERS ?= 2

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

bootstrap: ## Make .venv, if it is missing or out of date.
	@scripts/bootstrap.sh

quickstart: bootstrap ## Install, then train, evaluate and record a first run on this computer.
	$(BIN)/speedrun run adamw --rung micro_2 --results .speedrun/quickstart

test: bootstrap ## Run the quick tests.
	$(BIN)/pytest -m "not slow" --numprocesses $(WORKERS) --dist loadfile

test-full: bootstrap ## Run the slow tests: real training, compiling, Ray. One at a time, for each uses all cores.
	$(BIN)/pytest -m slow

lint: bootstrap ## Check style, types and shell scripts.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyrefly check
	$(BIN)/shellcheck scripts/*.sh scripts/clusters/*.sh .ci/run

format: bootstrap ## Rewrite the code in the project's style.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: bootstrap ## Write requirements.lock anew from pyproject.toml (add UPGRADE=--upgrade for newer versions).
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.12 --extra dev $(UPGRADE) \
		--no-emit-index-url --annotation-style line --custom-compile-command "make lock" \
		--output-file requirements.lock
