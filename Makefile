# The targets need Python 3.11 or newer and access to PyPI, and install everything into .venv.
# Distributions compile Python with all optimizations. A Python that was compiled on the machine often lacks them and
# takes a third more time.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo /usr/bin/python3 || echo python3)
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Compiled modules are kept: the tests start hundreds of processes, and pytest rewrites every test module.
unexport PYTHONDONTWRITEBYTECODE

# The checks read the settings but connect to nothing.
CHECK_SETTINGS := SECRET_KEY=check DATABASE_URL=postgresql://127.0.0.1:1/none REDIS_URL=redis://127.0.0.1:1

# docs/openapi.json describes a deployment with the default settings.
DEFAULT_CONTRACT := API_RESOURCE=sim SERVICE_BRAND=Service API_VARIANT=C PUBLIC_BASE_URL= GIT_BRANCHES=midnight

.PHONY: run bench soak recovery pressure newcomer docs links screenshots loading openapi lock audit release
.PHONY: test stack everything fuzz ledger faults outages drill pgbouncer
.PHONY: check format lint types imports citations migrations document library collection stylesheets

# ARGS=--once stops after the demo job; --port and --data choose the port and the data folder.
run: .venv/.runtime
	@$(BIN)/python manage.py local $(ARGS)

# Tests often wait for other processes, so two run at a time on each core.
PYTEST := $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder -n $(shell expr $$(nproc) \* 2)
QUICK_TESTS := $(PYTEST) -m "not slow"

test: check
	$(QUICK_TESTS)

# Tests that start whole stacks, fill large tables or are slow: a quarter of an hour. Without `chromium` or `npm`, the
# tests that need them are skipped.
stack: .venv/.development
	$(PYTEST) -m slow

# All tests: those of `make test` and of `make stack`.
everything: check
	$(PYTEST)

# The tests of `make test`, or those that ARGS names, through PgBouncer in transaction mode. Needs the package pgbouncer.
pgbouncer: .venv/.development
	PGBOUNCER=1 $(QUICK_TESTS) --reuse-db $(ARGS)

# Thousands of generated requests against both API variants; `make stack` sends a few hundred to one of them.
FUZZ_EXAMPLES ?= 150
fuzz: .venv/.development
	$(BIN)/python -m tests.contract.fuzz $(FUZZ_EXAMPLES)

# 200,000 random credit operations compared with a simple model, and 1,000 races: half an hour. `make test` runs fewer.
ledger: .venv/.development
	SIMSERVICE_LONG=1 $(BIN)/python -m pytest -s tests/billing

# Thousands of jobs while processes are killed at every step, and 1,000 capped jobs on a busy machine: an hour and a
# half. FAULT_SEED and FAULT_JOBS select another run; `make stack` includes a small one.
faults: .venv/.development
	SIMSERVICE_LONG=1 $(BIN)/python -m pytest -s tests/faults tests/jobs/shards/test_model.py

# Freezes, slows down and cuts off PostgreSQL, Redis and the bucket under load, for a minute each: ten minutes.
# ARGS=10 sets the number of seconds.
outages: .venv/.development
	$(BIN)/python -m tests.faults.outages $(ARGS)

# Backups of both kinds under load, the loss of everything, and the restore: eight minutes. DRILL_SECONDS is the load.
# Then one of two machines is killed, and one drained: a minute.
DRILL_SECONDS ?= 30
drill: .venv/.development
	DRILL_SECONDS=$(DRILL_SECONDS) $(BIN)/python -m pytest -s tests/faults/test_backup_drill.py \
		tests/end_to_end/test_node_drills.py

# Figures with their aims and the previous run, saved in bench/results: 25 minutes on two quiet cores.
# ARGS=--quick takes eight minutes; ARGS=--help lists the options.
bench: .venv/.runtime
	@$(BIN)/python -m bench $(ARGS)

# An hour of submissions while a worker is killed every two minutes. For a short run: ARGS='--minutes 3'.
soak: .venv/.runtime
	@$(BIN)/python -m bench.soak $(ARGS)

# A job of ten minutes on four slots, undisturbed and while a worker is killed every minute; then the conductors of 20
# jobs are killed, and a job is paused: half an hour. For a short run: ARGS='--minutes 2 --kills 3'.
recovery: .venv/.runtime
	@$(BIN)/python -m bench.recovery $(ARGS)

# Nine disturbances of PostgreSQL and workers under load, three runs each: an hour and three quarters. For a short run:
# ARGS='--runs 1 --seconds 10 --only restart readers'.
pressure: .venv/.runtime
	@$(BIN)/python -m bench.pressure $(ARGS)

# The first result and the tutorial from a fresh clone of the last commit, without development tools, with the seconds.
newcomer: .venv/.development
	@$(BIN)/python -m tests.docs.newcomer

# The site of the documentation, in site/. ARGS=--serve shows it at http://127.0.0.1:8001.
docs: .venv/.development
	@$(BIN)/python -m tests.docs.site $(ARGS)

# The links to other sites, which can change without any commit.
links: .venv/.development
	@$(BIN)/python -m tests.docs.site --links

# Screenshots of every page, in screenshots/. Needs Chromium. ARGS selects pages by name.
screenshots: .venv/.development
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

# The first paint, size and layout shift of public pages, beside their aims. Needs Chromium.
loading: .venv/.development
	$(BIN)/python -m tests.browser.loading $(ARGS)

check: .venv/.development
	@$(MAKE) --no-print-directory --assume-old=.venv/.development --jobs $$(nproc) --output-sync=target \
		types collection format lint imports citations stylesheets migrations document library

format: .venv/.development
	$(BIN)/ruff format --check .

lint: .venv/.development
	$(BIN)/ruff check .

types: .venv/.development
	$(CHECK_SETTINGS) $(BIN)/mypy .

imports: .venv/.development
	$(BIN)/lint-imports

citations: .venv/.development
	$(BIN)/python -m tests.citations

stylesheets: .venv/.development
	$(BIN)/python -m tests.stylesheets

migrations: .venv/.development
	$(CHECK_SETTINGS) $(BIN)/python -W 'ignore:Got an error checking:RuntimeWarning' \
		manage.py makemigrations --check --dry-run
	$(CHECK_SETTINGS) $(BIN)/python -m tests.migration_rules

document: .venv/.development
	$(CHECK_SETTINGS) $(DEFAULT_CONTRACT) $(BIN)/python manage.py openapi --check

# The generated modules of the Python library are those that docs/openapi.json asks for.
library: .venv/.development
	$(BIN)/python sdk/python/generate.py --check

# All tests can be imported. This compiles them once, and not in several processes at the same time.
collection: .venv/.development
	@$(CHECK_SETTINGS) $(BIN)/python -m pytest --collect-only -q >.venv/collection.log \
		|| { tail -n 60 .venv/collection.log; exit 1; }

openapi: .venv/.development
	$(CHECK_SETTINGS) $(DEFAULT_CONTRACT) $(BIN)/python manage.py openapi
	$(BIN)/python sdk/python/generate.py

# The versions and hashes of everything in the image, from requirements.txt and constraints.txt.
lock: .venv/.development
	$(BIN)/python -m deploy.lock

# Known vulnerabilities of the packages in the image. It asks the package index, and fails if that does not answer.
audit: .venv/.development
	$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement deploy/requirements.lock \
		--progress-spinner off

# Commit and tag a release, and put the wheel of the library and the SBOM into dist/: `make release VERSION=1.2.3`.
release: check audit
	@$(BIN)/python -m deploy.release $(VERSION)

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'Python 3.11 or newer is needed: make PYTHON=python3.12 …'; exit 1; }
	@echo 'Creating .venv'
	@$(PYTHON) -m venv --clear .venv

# uv takes a tenth of pip's time. It does not read pip's configuration, so pip is used if it cannot reach the packages.
UV := uv==0.13.9
define install
	@echo 'Installing $(1)'
	@{ $(BIN)/pip install --quiet --quiet $(UV) \
		&& $(BIN)/uv pip install --system-certs --quiet --python $(BIN)/python --requirement $(1) --constraint constraints.txt; } 2>/dev/null \
		|| $(BIN)/pip install --quiet --quiet --requirement $(1) --constraint constraints.txt
endef

.venv/.runtime: requirements-local.txt requirements.txt constraints.txt sdk/python/pyproject.toml | .venv/bin/pip
	$(call install,requirements-local.txt)
	@touch $@

.venv/.development: requirements-dev.txt requirements-local.txt requirements.txt constraints.txt sdk/python/pyproject.toml | .venv/bin/pip
	$(call install,requirements-dev.txt)
	@touch .venv/.runtime $@
