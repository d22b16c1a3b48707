# `make` lists the targets. Everything happens in .venv; a second run installs nothing.

PYTHON ?= python3
BIN := .venv/bin
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo example test test-time quick soak check format bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo:  ## set up, then show the whole story on a generated order feed
	@scripts/set-up run
	@scripts/java
	@$(BIN)/seriatim demo $(ARGS)

NAME ?= orders
example:  ## set up, then run one of the examples and compare its outcome (NAME=orders)
	@scripts/set-up run
	@scripts/java
	@$(BIN)/python -m examples.run $(NAME)

# The tests start hundreds of Python processes, and each would compile all of seriatim again where nothing may be kept.
test soak docs: export PYTHONDONTWRITEBYTECODE :=
test soak docs: export PYTHONPYCACHEPREFIX := $(CURDIR)/.pytest_cache/bytecode

WORKERS ?= 2
test:  ## set up, then run the whole suite on WORKERS=2 (ARGS=… goes to pytest); says how long that takes
	@scripts/set-up test
	@scripts/java
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-time)
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-time: # of the whole suite, and of what `make quick` runs, as tests/budget.toml has it
	@awk -F ' = ' '/^"/ {all += $$2} /^"tests\/(faults|spark)"/ {long += $$2} \
		END {printf "The whole suite takes up to %.0f minutes with $(WORKERS) workers on idle cores; ", all / $(WORKERS) / 60; \
			printf "`make quick`, without tests that kill processes or run on Spark, up to %.0f.\n", (all - long) / $(WORKERS) / 60}' \
		tests/budget.toml

quick:  ## the suite without the tests that kill processes, and without those on Spark
	@$(MAKE) --no-print-directory test ARGS="-m 'not faults and not spark' $(ARGS)"

soak:  ## the long tests at full size, one after another; their figures are the last lines
	@scripts/set-up test
	@scripts/java
	@SERIATIM_SOAK=full $(BIN)/python -m pytest -m soak $(ARGS)

check:  ## format, lint, types, import layers; under a minute
	@scripts/set-up dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format:  ## mend what `make check` can mend by itself
	@scripts/set-up dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench:  ## measure: ratios from one run, a table and JSON
	@scripts/set-up bench
	@scripts/java
	@$(BIN)/python -m benchmarks $(ARGS)

docs:  ## check the documents: their code runs, every command and error is described
	@scripts/set-up test
	@$(BIN)/python -m pytest docs README.md tests/project $(ARGS)

clean:  ## remove what was installed and built, and the caches
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
