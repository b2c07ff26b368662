# Start with `make demo` and `make test`. Each target creates the virtual environment and installs
# the dependencies if needed.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help demo test test-fast test-user check pictures generate evidence clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python scripts/install
	@touch $@

demo: $(VENV)/ready  ## train five small models under fair sharing, then under headway
	headway demo --data out --html out/demo.html

test: $(VENV)/ready  ## run the checks and tests that CI runs
	scripts/test

test-fast: $(VENV)/ready  ## run the tests that need no platform (2.5 minutes)
	scripts/test fast

test-user: $(VENV)/ready  ## run those of them that can depend on the user, without coverage
	scripts/test user

check: $(VENV)/ready  ## check format, lint, types, layers and sizes
	scripts/check

pictures: $(VENV)/ready  ## draw the pictures of the documentation
	scripts/pictures

generate: $(VENV)/ready  ## generate deploy/ and docs/reference/ from the code
	scripts/generate

evidence: $(VENV)/ready  ## run long measurements, append results to evidence/ (NAME=sim: only one)
	scripts/evidence $(NAME)

clean:  ## remove the virtual environment and build output
	rm -rf $(VENV) out dist build
