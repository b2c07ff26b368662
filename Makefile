# Two commands are all a newcomer needs: `make demo` and `make test`.
# Each makes the virtual environment and installs what it needs by itself.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help demo test test-fast check pictures generate evidence clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python scripts/install
	@touch $@

demo: $(VENV)/ready  ## five real trainings under fair sharing and under Headway, in turn
	headway demo --data out --html out/demo.html

test: $(VENV)/ready  ## everything that CI runs
	scripts/test

test-fast: $(VENV)/ready  ## what needs no platform: two minutes
	scripts/test fast

check: $(VENV)/ready  ## format, lint, types, layers, sizes
	scripts/check

pictures: $(VENV)/ready  ## draw the pictures of the documentation anew
	scripts/pictures

generate: $(VENV)/ready  ## write deploy/ and docs/reference/ anew, from the code
	scripts/generate

evidence: $(VENV)/ready  ## long measurements, appended to evidence/: make evidence NAME=bench
	scripts/evidence $(NAME)

clean:  ## remove what was built here
	rm -rf $(VENV) out dist build
