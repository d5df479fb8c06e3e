# `make help` lists the commands. Everything runs in .venv, which the first of them creates.

PYTHON ?= python3
PROFILE ?= default
CHAPTER ?=
ARGS ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help book paper rerun test lint strip doctor clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

book: .venv/.installed ## execute what is out of date and render the site [PROFILE=quick|default|paper]
	@$(BIN)/gradedsparse book --profile $(PROFILE)

paper: ## the book with the sample sizes of the published figures (hours)
	@$(MAKE) --no-print-directory book PROFILE=paper

rerun: .venv/.installed ## one chapter with other values: CHAPTER=04 ARGS="-p n 2000"
	@$(BIN)/gradedsparse rerun $(CHAPTER) $(ARGS)

test: .venv/.installed ## run all tests
	@$(BIN)/python -m pytest

lint: .venv/.installed ## check style, format, and that notebooks carry no outputs
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m gradedsparse.book.clean --check

strip: .venv/.installed ## remove the outputs from the notebooks
	@$(BIN)/python -m gradedsparse.book.clean

doctor: ## say what is missing, with the mend
	@if [ -x $(BIN)/python ]; then $(BIN)/python -I src/gradedsparse/doctor.py; \
	else $(PYTHON) -I src/gradedsparse/doctor.py; fi

clean: ## remove the site, the executed copies and the reruns
	rm -rf _build book/chapters book/reruns

.venv/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo 'make: needs Python 3.11 or newer, but $(PYTHON) is older or missing; try make PYTHON=python3.11'; exit 1; }
	@echo 'installing the environment into .venv (a few minutes, once)'
	@$(PYTHON) -m venv .venv || \
	  { echo 'make: $(PYTHON) cannot create an environment; on Debian or Ubuntu: apt install python3-venv'; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
