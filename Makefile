# `make` lists the targets. Everything happens in .venv; a second run installs nothing.

PYTHON ?= python3
BIN := .venv/bin
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo example test test-all test-rest test-time soak platforms check format bench docs site release clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

demo:  ## set up, then show the whole story on a generated order feed
	@scripts/set-up run
	@scripts/java
	@$(BIN)/seriatim demo $(ARGS)

NAME ?= orders
example:  ## set up, then run one of the examples and compare its outcome (NAME=orders)
	@scripts/set-up run
	@scripts/java
	@$(BIN)/python -m examples.run $(NAME)

# Tests and measurements start hundreds of Python processes; each would compile all of seriatim again where nothing may be kept.
test test-all test-rest soak docs bench: export PYTHONDONTWRITEBYTECODE :=
test test-all test-rest soak docs bench: export PYTHONPYCACHEPREFIX := $(CURDIR)/.pytest_cache/bytecode

# A worker waits now and then, for a lease, a kill or a JVM: three keep two cores busy.
test: export SERIATIM_SIZE ?= small
test:  ## set up, then tell whether all of it works: every room, and a few of the tests that take long; says how long that takes
	@scripts/set-up test
	@scripts/java
	@$(MAKE) --no-print-directory test-time
	@$(BIN)/python -m pytest -n $(or $(WORKERS),3) -m "not dear or telling" $(ARGS)

test-all:  ## the whole suite on WORKERS=3 (ARGS="tests/pipeline -x": all of a part)
	@scripts/set-up test
	@scripts/java
	@$(BIN)/python -m pytest -n $(or $(WORKERS),3) $(ARGS)

test-rest:  ## what `make test` leaves out of the whole suite
	@$(MAKE) --no-print-directory test-all ARGS='-m "dear and not telling" $(ARGS)'

test-time: # as tests/budget.toml has it
	@awk -F ' = ' '/^test / {few = $$2} /^"/ {all += $$2} \
		END {printf "`make test` takes up to %.0f minutes on $(or $(WORKERS),2) idle cores, and `make test-all` up to %.0f.\n", \
			few / $(or $(WORKERS),2) / 60, all / $(or $(WORKERS),2) / 60}' \
		tests/budget.toml

soak:  ## the long tests at full size, one after another; their figures are the last lines
	@scripts/set-up test
	@scripts/java
	@SERIATIM_SIZE=full $(BIN)/python -m pytest -m soak $(ARGS)

platforms:  ## frames, streams and a killed pipeline on each version of Spark (ARGS="4.1": on that one)
	@scripts/java
	@scripts/platforms $(ARGS)

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

site:  ## build the documents as a static site with a search: build/site/index.html
	@scripts/set-up site
	@$(BIN)/python scripts/site.py

release:  ## build wheel and sdist, and try them in empty environments (ARGS=--tag: then cut the changelog and tag)
	@scripts/set-up release
	@scripts/java
	@$(BIN)/python scripts/release.py $(ARGS)

clean:  ## remove what was installed and built, and the caches
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
