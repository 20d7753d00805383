# Two commands are all you need: `make serve` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS := -n auto --dist loadgroup

# Tests start hundreds of processes: without bytecode each of them would compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install serve demo test test-quick coverage fuzz check format bench docs dist lock clean

help:
	@echo "make serve       install what serving needs, and run the server on http://127.0.0.1:4437"
	@echo "make demo        a server, live traffic, pipeline jobs, and a report with charts: about a minute"
	@echo "make test        install everything else, and run all tests (make test-quick: the fast half)"
	@echo "make coverage    all tests, and how much of the code they run"
	@echo "make fuzz        fuzz every parser and a server for MINUTES=10, guided by coverage if atheris is installed"
	@echo "make check       formatting, lint, types, import rules, and the documentation's links"
	@echo "make format      format the code, and fix what ruff can fix"
	@echo "make bench       measure beside Electric's server in Rust"
	@echo "make docs        build the documentation into site/"
	@echo "make dist        build the packages into dist/, and try them"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Mainstem needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.serve: $(BIN)/python pyproject.toml requirements/serve.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/serve.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.serve requirements/dev.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

install: $(VENV)/.dev

serve: $(VENV)/.serve
	$(BIN)/mainstem serve $(ARGS)

demo: install
	PYTHONPATH=examples $(BIN)/python -m demo $(ARGS)

test: install
	$(BIN)/pytest $(WORKERS) --durations=30 $(ARGS)

test-quick: install
	$(BIN)/pytest -m "not slow" $(WORKERS) $(ARGS)

# Without the tests that judge how long others wait in a flood: measuring makes every process slower.
coverage: export COVERAGE_FILE := $(CURDIR)/.cache/coverage/data
coverage: install
	rm -rf .cache/coverage
	mkdir -p .cache/coverage
	$(BIN)/coverage run -m pytest $(WORKERS) --ignore tests/edge/test_floods.py $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

fuzz: MINUTES := 10
fuzz: install
	$(BIN)/python -m mainstem.testing.fuzz --minutes $(MINUTES) --corpus tests/fuzz/corpus $(ARGS)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zensical build --clean --strict

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python -m bench $(ARGS)

docs: install
	$(BIN)/zensical build --clean --strict

# The wheel is tried in an empty environment, and the sdist by the quick tests that it contains.
dist: install
	rm -rf dist .cache/dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(PYTHON) -m venv .cache/dist/venv
	.cache/dist/venv/bin/pip install --quiet dist/*.whl
	.cache/dist/venv/bin/mainstem --version
	mkdir .cache/dist/sdist
	tar --extract --gzip --file dist/*.tar.gz --directory .cache/dist/sdist --strip-components 1
	cd .cache/dist/sdist && PYTHONPATH=src $(CURDIR)/$(BIN)/python -m pytest -m "not slow" $(WORKERS) $(ARGS)

# Pins every dependency for every supported Python; run it after changing pyproject.toml. Everything gets what is tested.
LOCK := .cache/lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
	--python-version 3.11 pyproject.toml requirements/build.in
lock:
	$(PYTHON) -m venv .cache/lock
	.cache/lock/bin/pip install --quiet uv
	$(LOCK) --extra dev -o requirements/dev.txt
	$(LOCK) --constraint requirements/dev.txt -o requirements/serve.txt
	$(LOCK) --extra postgres --extra arrow --constraint requirements/dev.txt -o requirements/image.txt
	$(LOCK) --extra spark --constraint requirements/dev.txt -o requirements/pipeline.txt

clean:
	rm -rf $(VENV) .cache site
