# Every target works from a bare checkout. `make run` and `make test` are all that a newcomer needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := kbench_site benchmarks agents
# On PostgreSQL as well. Whole sites of other tests have databases of their own, PostgreSQL among them.
DATABASE_TESTS := tests/benchmarks tests/web tests/agents tests/operations/test_at_once.py tests/security \
	tests/site/test_worker.py
# These have the machine to themselves, since they assert about time. All others run side by side.
ALONE := alone or gpu
PYTEST := $(BIN)/python -m pytest
QUICK := tests/harness tests/evolve tests/test_contracts.py
COVERAGE := --cov-report=term:skip-covered --cov-report=xml:var/coverage.xml
BESIDE := -n auto --maxprocesses 8
COMPUTING := -n logical --maxprocesses 8
# Collecting all tests takes longer than finding the files that have such ones.
ALONE_FILES = $(shell grep -rlE 'mark\.(alone|gpu)\b' tests --include='test_*.py')
DEPLOYMENT_FILES := tests/deployment

# Python keeps what it has compiled, whatever the environment says: every process of the tests would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-rest test-alone test-postgres test-deployment coverage coverage-all check fix bench bench-site editor redteam install system-run system-test clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / — /'

run: install system-run $(VENV)/prepared ## the whole site on http://127.0.0.1:8000 (PORT changes it); Ctrl-C stops all of it
	@exec $(BIN)/python manage.py up

test: install system-test ## the whole test suite
	$(PYTEST) $(BESIDE) -m "not ($(ALONE) or deployment)"
	$(PYTEST) -m "$(ALONE) or deployment" $(ALONE_FILES) $(DEPLOYMENT_FILES)

test-quick: install ## unit and contract tests in a minute: no sandbox, no browser, no site
	$(PYTEST) $(COMPUTING) -m quick $(QUICK)

test-rest: install system-test ## what `test` runs side by side and `test-quick` does not
	$(PYTEST) $(BESIDE) -m "not quick and not ($(ALONE) or deployment)"

test-alone: install system-test ## what asserts about time, on a machine that does nothing else
	$(PYTEST) -m "$(ALONE)" $(ALONE_FILES)

test-postgres: install system-test ## what touches the database, on a PostgreSQL that is started for it
	KBENCH_TEST_DATABASE=postgres $(PYTEST) $(BESIDE) -m "not ($(ALONE))" $(DATABASE_TESTS)

test-deployment: install system-test ## the shipped nginx, systemd and PostgreSQL set-up, on a throw-away machine (root)
	@sh scripts/system_packages.sh systemd-container:systemd-nspawn nginx-light:nginx redis-server:redis-server \
		postgresql:pg_createcluster openssl:openssl curl:curl iproute2:ip docker-compose:docker-compose
	$(PYTEST) -m deployment $(DEPLOYMENT_FILES)

coverage: install ## branch coverage of the harness and the search by the tests of test-quick
	$(PYTEST) $(COMPUTING) -q -m quick $(QUICK) --cov=benchmarks/harness --cov=agents/evolve $(COVERAGE)

coverage-all: install ## branch coverage by all tests that start no sandbox, no browser and no site
	$(PYTEST) $(BESIDE) -q -m "not (sandbox or browser or deployment or $(ALONE))" --cov $(COVERAGE)

check: install ## format, lint, types, import contracts, migrations, freshness of the docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python -m scripts.docs --check
	$(BIN)/python -m scripts.audit

fix: install ## format the code, fix lint errors, regenerate tables in docs/
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m scripts.docs

bench: install ## benchmarks of the system itself: tables, then one JSON line
	@sh scripts/system_packages.sh bubblewrap:bwrap ninja-build:ninja
	$(BIN)/python -m lab.bench

bench-site: install ## a site of 100,000 submissions under load: pages, 500 viewers, 50 posts at once
	$(BIN)/python -m lab.site

editor: ## static/vendor/codemirror from the versions in scripts/editor; needs node, npm and the npm registry
	cd scripts/editor && npm ci && npm run --silent build && rm -rf node_modules

redteam: install ## every attack of the corpus against the real judge, each beside its honest control
	@sh scripts/system_packages.sh bubblewrap:bwrap
	$(BIN)/python -m scripts.redteam

install: $(VENV)/installed

# pip would compile with one core, after each of the two. Some files of packages are templates, which nothing can compile.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt torch
	@$(BIN)/python -m compileall -q $(VENV)/lib >$(VENV)/compiled 2>&1 & \
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[dev]" || exit 1; wait
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >$(VENV)/compiled 2>&1 || true
	@touch $@

# Once: the database, and what is compiled before anything can be judged. `up` does both where it is missing.
$(VENV)/prepared: $(VENV)/installed | system-run
	$(BIN)/python manage.py prepare --builds
	@touch $@

system-run:
	@sh scripts/system_packages.sh bubblewrap:bwrap

system-test:
	@sh scripts/system_packages.sh bubblewrap:bwrap chromium-headless-shell:chromium-headless-shell:chromium

clean: ## removes what was installed and all data
	rm -rf $(VENV) var
