# Every target works from a bare checkout. `make run` and `make test` are all that a newcomer needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := kbench_site benchmarks agents
DATABASE_TESTS := tests/benchmarks tests/web tests/agents tests/operations tests/security tests/site/test_env.py \
	tests/site/test_worker.py
# These have the machine to themselves: they judge, drive a browser or run a whole site. All others run side by side.
ALONE := sandbox or browser or gpu
PYTEST := $(BIN)/python -m pytest
BESIDE := -n logical --maxprocesses 8 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help run test test-postgres check fix bench bench-site install system-run system-test clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / — /'

run: install system-run ## the whole site on http://127.0.0.1:8000 (PORT changes it); Ctrl-C stops all of it
	@exec $(BIN)/python manage.py up

test: install system-test ## the whole test suite
	$(PYTEST) $(BESIDE) -m "not ($(ALONE))"
	$(PYTEST) -m "$(ALONE)"

test-postgres: install system-test ## what touches the database, on a PostgreSQL that is started for it
	KBENCH_TEST_DATABASE=postgres $(PYTEST) $(BESIDE) -m "not ($(ALONE))" $(DATABASE_TESTS)

check: install ## format, lint, types, import contracts, migrations, freshness of the docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python -m scripts.docs --check
	$(BIN)/python -m scripts.audit

fix: install ## let the tools mend what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m scripts.docs

bench: install ## benchmarks of the system itself: tables, then one JSON line
	@sh scripts/system_packages.sh bubblewrap:bwrap ninja-build:ninja
	$(BIN)/python -m scripts.bench

bench-site: install ## a site of 100,000 submissions under load: pages, 500 viewers, 50 posts at once
	$(BIN)/python -m scripts.bench_site

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

system-run:
	@sh scripts/system_packages.sh bubblewrap:bwrap

system-test:
	@sh scripts/system_packages.sh bubblewrap:bwrap chromium:chromium

clean: ## removes what was installed and all data
	rm -rf $(VENV) var
