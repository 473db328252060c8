PY := .venv/bin/python

help:  ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.venv/ready: pyproject.toml scripts/venv
	@scripts/venv
	@touch $@

venv: .venv/ready  ## The virtual environment with everything in it

.PHONY: help venv
