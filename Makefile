# `make help` lists what can be made. Everything runs in .venv, which is made when it is needed.
PY := .venv/bin/python
BOOKSAN := .venv/bin/booksan
DEMO := demo

help:  ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.venv/ready: pyproject.toml requirements-dev.lock scripts/venv
	@scripts/venv
	@touch $@

venv: .venv/ready  ## The virtual environment with booksan and its tools

demo: .venv/ready  ## Generates a small data set and answers the five queries
	@$(BOOKSAN) generate books --out $(DEMO)/data --books 2000 --reviews 20000 --seed 1
	@$(BOOKSAN) run books $(DEMO)/data/books_data.csv $(DEMO)/data/Books_rating.csv \
		--out $(DEMO)/answers --set q2.decades=5 --set q3.min_reviews=50

test: .venv/ready  ## All tests that fit into a quarter of an hour
	@scripts/rabbitmq
	@$(PY) -m pytest -m 'not soak and not docker' -n 2 --dist worksteal

soak: .venv/ready  ## The long ones: every pair of crashes, clusters under fire, thousands of texts
	@$(PY) -m pytest -m soak -n 2 --dist worksteal -s

test-docker: .venv/ready  ## Containers on a real engine; skipped with the reason where there is none
	@scripts/docker $(PY) -m pytest -m docker -s tests/docker

lint: .venv/ready  ## Format, lint and types
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy

format: .venv/ready  ## Formats the code
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

lock: .venv/ready  ## Newest versions of all libraries that fit, with their hashes
	@scripts/lock

bench: .venv/ready  ## booksan beside DuckDB + TextBlob and polars + TextBlob, same files
	@$(BOOKSAN) bench books --twice

clean:  ## Removes what the other targets made
	rm -rf .venv $(DEMO) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help venv demo test test-docker soak lint format lock bench clean
