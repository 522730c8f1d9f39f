# Every verb of this repository. `make help` lists them; a recipe that would
# need more than five lines is a script in hack/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
# Where `make run` keeps its data and its runs; git ignores it.
HOME_DIR ?= $(CURDIR)/.trainshed
RUN_FILE ?= manifests/trainingrun.yaml
PYTEST_ARGS ?=
SOURCES := $(wildcard api app controller examples tests benchmarks hack)

##@ Start here
.PHONY: help setup run
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.stamp ## Make .venv from the hash-locked requirements
	@:
.venv/.stamp: requirements/dev.txt pyproject.toml hack/setup.sh
	@hack/setup.sh

run: setup ## Train manifests/trainingrun.yaml on the handwritten digits
	@export TRAINSHED_HOME="$(HOME_DIR)"; \
	$(BIN)/trainshed data digits --to "$(HOME_DIR)" && \
	$(BIN)/trainshed run $(RUN_FILE) $(RUN_ARGS)

##@ Check
.PHONY: test lint types layers chart
test: lint types layers ## lint, types, layers, then every test that needs no cluster and no GPU
	@$(BIN)/python -m pytest -m "not e2e and not gpu" $(PYTEST_ARGS)

lint: setup ## Style and format
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)

types: setup ## mypy, strict
	@$(BIN)/mypy

layers: setup ## Which room may import which
	@$(BIN)/lint-imports

chart: setup ## Check the chart alone: lint, every example, every refusal
	@$(BIN)/python -m pytest tests/chart $(PYTEST_ARGS)

##@ A Kubernetes on this machine
.PHONY: cluster cluster-down cluster-load e2e
cluster: setup ## Bring up a node, in Docker or as processes (docs/cluster.md)
	@$(BIN)/python -m hack.cluster up

cluster-down: setup ## Take it down; nothing is left
	@$(BIN)/python -m hack.cluster down

cluster-load: setup ## Give it an image: ARCHIVE=file.tar or IMAGE=name
	@$(BIN)/python -m hack.cluster load $(if $(IMAGE),--image "$(IMAGE)",--archive "$(ARCHIVE)")

e2e: setup ## Every test that needs a whole cluster
	@$(BIN)/python -m hack.cluster prepare
	@$(BIN)/python -m pytest -m e2e -o timeout=900 $(PYTEST_ARGS)

##@ Change
.PHONY: fmt generate lock images bench clean
fmt: setup ## Rewrite the sources in the one format, and what README.md shows of them
	@$(BIN)/ruff check --fix --select I $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/python hack/readme.py

generate: setup ## Write again what is generated: the chart's README, manifests/install.yaml
	@$(BIN)/python -m hack.chart

lock: ## Resolve the requirements again (UPGRADE=1 takes newer versions)
	@hack/lock.sh

images: setup ## Build the images that changed, by docker or else buildah: make images NAME=app
	@$(BIN)/python -m hack.images build $(NAME)

bench: setup ## List the benchmarks, or run one: make bench NAME=ceiling
	@hack/bench.sh $(NAME)

clean: ## Remove everything that make made
	@rm -rf .venv .trainshed .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build
	@find . -name __pycache__ -prune -exec rm -rf {} + ; find . -maxdepth 2 -name '*.egg-info' -exec rm -rf {} +
