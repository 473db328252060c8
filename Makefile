# `make help` lists what can be made. Everything runs in .venv, which is made when it is needed.
PY := .venv/bin/python
BOOKSAN := .venv/bin/booksan
DEMO := demo

help:  ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# What users need, and on top of it what developers need.
.venv/ready: pyproject.toml requirements.lock scripts/venv
	@scripts/venv
	@touch $@

.venv/dev-ready: .venv/ready requirements-dev.lock
	@scripts/venv dev
	@touch $@

venv: .venv/dev-ready  ## The virtual environment with booksan and the tools of its developers

demo: .venv/ready  ## Generates a small data set and answers the five queries
	@$(BOOKSAN) generate books --out $(DEMO)/data --books 2000 --reviews 20000 --seed 1
	@$(BOOKSAN) run books $(DEMO)/data/books_data.csv $(DEMO)/data/Books_rating.csv \
		--out $(DEMO)/answers --set q2.decades=5 --set q3.min_reviews=50

test: .venv/dev-ready  ## What a change is likely to break, in a few minutes
	@scripts/rabbitmq
	@$(PY) -m pytest -m 'not slow and not soak and not docker' -n 2 --dist worksteal

test-slow: .venv/dev-ready  ## The rest: processes, clusters, faults, every command of the docs
	@scripts/rabbitmq
	@scripts/test-packages
	@$(PY) -m pytest -m 'slow and not soak and not docker' -n 2 --dist worksteal

check: lint test test-slow test-docker  ## Everything that must pass before a change lands

soak: .venv/dev-ready  ## The long ones: every pair of crashes, clusters under fire, thousands of texts
	@$(PY) -m pytest -m soak -n 2 --dist worksteal -s

soak-faults: .venv/dev-ready  ## Rounds of faults of all kinds, MINUTES=30 or until Ctrl-C; goes on where it was
	@$(PY) -m tests.soak --minutes $(or $(MINUTES),30)

reliability: .venv/dev-ready  ## The same for MINUTES=1, and docs/reliability.md out of all figures
	@$(PY) -m tests.soak --minutes $(or $(MINUTES),1) --write

test-docker: .venv/dev-ready  ## Containers on a real engine; skipped with the reason where there is none
	@scripts/docker $(PY) -m pytest -m docker -s tests/docker

lint: .venv/dev-ready  ## Format, lint and types
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy

format: .venv/dev-ready  ## Formats the code
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

lock: .venv/dev-ready  ## Newest versions of all libraries that fit, with their hashes
	@scripts/lock

diagrams: .venv/dev-ready  ## Writes docs/diagrams.md out of the code
	@$(PY) -m scripts.diagrams

bench: .venv/dev-ready  ## booksan beside DuckDB + TextBlob and polars + TextBlob, same files
	@$(BOOKSAN) bench books --twice

figures: .venv/dev-ready  ## Measures the figures in docs/benchmarks.md, and writes them there
	@$(PY) -m scripts.figures

clean:  ## Removes what the other targets made
	rm -rf .venv $(DEMO) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help venv demo test test-slow check test-docker soak soak-faults reliability lint format lock diagrams bench figures clean
