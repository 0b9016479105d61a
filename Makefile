# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint results setup setup-dev clean

demo: .venv/.demo
	$(BIN)/unmask demo

test: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile

# Every table and figure of docs/results.md; resumes. `make results QUICK=1` takes three minutes and writes to runs/.
results: .venv/.dev
	$(BIN)/python benchmarks/results.py $(if $(QUICK),--quick)

lint: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

setup: .venv/.demo
setup-dev: .venv/.dev

# The stamps are newer than pyproject.toml once installed, so both commands start at once the next time.
.venv/.demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

.venv/.dev: .venv/.demo
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
