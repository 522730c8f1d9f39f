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
# Tests that share an API server or a Ray stay in one process (tests/gates.py).
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest $(if $(DURATIONS),--packages)
SIDE_BY_SIDE := -n $(WORKERS) --dist loadgroup
SOURCES := $(wildcard api app controller examples tests benchmarks hack)

##@ Start here
.PHONY: help setup run kind
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.stamp ## Make .venv from the hash-locked requirements
	@:
.venv/.stamp: requirements/dev.txt pyproject.toml hack/setup.sh
	@hack/setup.sh

run: setup ## Train manifests/trainingrun.yaml on the digits; RUN_ARGS=--fresh trains anew
	@export TRAINSHED_HOME="$(HOME_DIR)"; \
	$(BIN)/trainshed data sample digits --to "$(HOME_DIR)" && \
	$(BIN)/trainshed run $(RUN_FILE) $(RUN_ARGS)

kind: ## Train manifests/trainingrun.yaml on Kubernetes in Docker: kind, images, chart, run, report
	@hack/kind.sh

##@ Check (docs/testing.md)
# Two processes side by side: numeric libraries that each take all cores only fight each other.
check test test-tensorflow package: export OMP_NUM_THREADS ?= 1
# A gate starts hundreds of Python processes: each would compile our modules again.
check test test-tensorflow core e2e: export PYTHONDONTWRITEBYTECODE :=
.PHONY: check test test-gpu test-tensorflow test-azure test-trackers test-trainers package lint types layers soak faults stops seams
check: lint types layers ## lint, types, layers, every test that starts neither Ray nor a server
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not (ray or control_plane or s3 or e2e or gpu or tensorflow or azure or trackers or trainers)" $(PYTEST_ARGS)

test: lint types layers ## the same and every test that starts Ray or a server: all but a node
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not (e2e or gpu or tensorflow or azure or trackers or trainers)" $(PYTEST_ARGS)

add: setup ## Install packages into .venv: make add PACKAGES="einops lightning"
	@"$$(hack/find-uv.sh)" pip install --python .venv $(PACKAGES)

test-gpu: setup ## What needs a CUDA device
	@$(PYTEST) -m gpu $(PYTEST_ARGS)

test-tensorflow: setup ## What needs TensorFlow, which is installed beside .venv's packages
	@hack/with-packages.sh images/app/tensorflow.txt $(BIN)/python -m pytest -m tensorflow $(PYTEST_ARGS)

test-azure: setup ## What needs a store that speaks as Azure's; Node.js and npm have to be there
	@hack/azurite.sh $(BIN)/python -m pytest -m "azure and not e2e" $(PYTEST_ARGS)

test-trackers: setup ## What needs servers of MLflow and TensorBoard, or W&B's client
	@hack/trackers.sh $(BIN)/python -m pytest -m trackers $(PYTEST_ARGS)

test-trainers: setup ## What needs Lightning, Transformers and Accelerate
	@hack/with-packages.sh requirements/trainers.txt $(BIN)/python -m pytest -m trainers $(PYTEST_ARGS)

package: setup ## The tests of one package alone: make package PACKAGE=app/data
	@$(PYTEST) -m "not (e2e or gpu or tensorflow or azure or trackers or trainers)" $(PYTEST_ARGS) tests/$(PACKAGE)

lint: setup ## Style and format
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)

types: setup ## mypy, strict
	@$(BIN)/mypy

layers: setup ## Which package may import which
	@$(BIN)/lint-imports

soak: setup ## Play the controller's world by seed, in virtual time: make soak SECONDS=3600 SEEDS=1,2
	@$(BIN)/python -m tests.simulation --seconds "$(or $(SECONDS),300)" \
	  --seeds "$(or $(SEED),$(SEEDS),1,2,3)" --episodes "$(or $(EPISODES),0)"

faults: setup ## Put faults into the sources, one by one, and see which the tests catch
	@$(BIN)/python -m hack.faults $(FAULTS_ARGS)

stops: setup ## Stop runs in many ways, and judge what they trained: make stops SHARD=1/4 ONLY=zip
	@$(BIN)/python -m hack.stops --shard "$(or $(SHARD),1/1)" --seed "$(or $(SEED),0)" \
	  --count "$(or $(COUNT),240)" --only "$(ONLY)"

seams: setup ## Which private part of Ray another release changed: make seams RAY=2.59.0
	@hack/seams.sh "$(RAY)"

##@ Documentation
.PHONY: docs docs-serve gallery
docs: ## Build the site into build/site; a dead link fails
	@hack/docs.sh build --strict

docs-serve: ## Show the site at http://127.0.0.1:8000, rebuilt after each change of a page
	@hack/docs.sh serve

gallery: setup ## Run the commands of gallery and how-to pages: make gallery NAME=detection
	@$(BIN)/python -m hack.pages --name "$(NAME)"

##@ A Kubernetes on this machine
# What the tests of a cluster load; the operator is KubeRay's own where its image is named.
E2E_IMAGES := app controller $(if $(TRAINSHED_KUBERAY_IMAGE),,kuberay)
.PHONY: cluster cluster-down cluster-load e2e core
cluster: setup ## Bring up a node, in Docker or as processes (docs/cluster.md)
	@$(BIN)/python -m hack.cluster up

cluster-down: setup ## Take it down; nothing is left
	@$(BIN)/python -m hack.cluster down

cluster-load: setup ## Give it an image: ARCHIVE=file.tar or IMAGE=name
	@$(BIN)/python -m hack.cluster load $(if $(IMAGE),--image "$(IMAGE)",--archive "$(ARCHIVE)")

core: setup ## The tests of a cluster that every change has to pass
	@$(BIN)/python -m hack.cluster prepare
	@$(BIN)/python -m hack.images build $(E2E_IMAGES)
	@$(PYTEST) -m core -o timeout=900 $(PYTEST_ARGS)

e2e: setup ## Every test of a cluster, and what is too slow for the other gates
	@$(BIN)/python -m hack.cluster prepare
	@$(BIN)/python -m hack.images build $(E2E_IMAGES)
	@$(PYTEST) -m e2e -o timeout=900 $(PYTEST_ARGS)

##@ Change
.PHONY: fmt generate lock images dist release release-check bench clean
fmt: setup ## Rewrite the sources in the one format, and what README.md shows of them
	@$(BIN)/ruff check --fix --select I $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/python hack/readme.py

generate: setup ## Write generated files again: CRD, chart's README, manifests, references, hack/messages.txt
	@$(BIN)/python -m hack.chart
	@$(BIN)/python -m hack.messages
	@$(BIN)/python -m hack.commands
	@$(BIN)/python -m hack.json_output
	@$(BIN)/python -m trainshed_api.reference > docs/trainingrun.md
	@$(BIN)/python -m trainshed.programs.reference > docs/programs.md

lock: ## Resolve the requirements again (UPGRADE=1 takes newer versions)
	@hack/lock.sh

images: setup ## Build the images that changed, by docker or else buildah: make images NAME=app
	@$(BIN)/python -m hack.images build $(NAME)

dist: ## Build the wheel, the source archive and the chart's archive into dist/, with checksums
	@hack/dist.sh

release: ## The same with SBOMs and provenance, from a clean tree
	@hack/release.sh

release-check: ## Install the chart and the wheel of dist/ in an empty folder
	@hack/release-check.sh

bench: setup ## List the benchmarks, or run one: make bench NAME=ceiling
	@hack/bench.sh $(NAME)

clean: ## Remove everything that make made
	@rm -rf .venv .trainshed .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find . -name __pycache__ -prune -exec rm -rf {} + ; find . -maxdepth 2 -name '*.egg-info' -exec rm -rf {} +
