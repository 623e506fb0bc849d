# Every target sets up what it needs in .venv, from nothing.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: demo play test test-long soak mutants check format docs bench clean

demo: .venv/base  ## RePR and no-reh on three small games; ends in a report page
	$(BIN)/reaper demo

play: .venv/play  ## one network plays the three Atari games it learnt in sequence: three videos
	for game in RoadRunner Boxing Jamesbond; do $(BIN)/reaper play --pretrained atari-3 --task $$game --video $$game.mp4 || exit; done

test: .venv/dev  ## everything but the long tests
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup

test-long: .venv/dev  ## the learning tests and everything else that takes minutes
	$(BIN)/python -m pytest -q -m long

KILLS ?= 300
WORKERS ?= 1
soak: .venv/dev  ## kills studies at random moments; results must be the same bytes, and no process may be left
	$(BIN)/python tests/durable/soak.py --kills $(KILLS) --workers $(WORKERS)

mutants: .venv/dev  ## how many small faults the tests notice; about an hour, and the same command continues
	$(BIN)/python tests/mutants

check: .venv/dev  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/docs  ## the documentation site in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/peers  ## agent steps per second compared with stable-baselines3
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf .venv build dist site

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(INSTALL) pip setuptools

.venv/base: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) torch
	$(INSTALL) --no-build-isolation --editable .
	touch $@

.venv/play: .venv/base
	$(INSTALL) --no-build-isolation --editable '.[atari,video]'
	touch $@

.venv/dev: .venv/base
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

.venv/docs: .venv/base
	$(INSTALL) --no-build-isolation --editable '.[docs]'
	touch $@

.venv/peers: .venv/base
	$(INSTALL) --no-build-isolation --editable '.[peers]'
	touch $@
