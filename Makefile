# Windlass. `make help` lists the targets; CONTRIBUTING.md says when to use which.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
.DEFAULT_GOAL := help

.PHONY: help install up demo test test-pg test-kube test-oidc test-prom test-slurm test-containers test-api test-faults check format bench performance clean goldens lock

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

install: $(STAMP) ## the environment, in .venv of this checkout

$(STAMP): requirements/lock.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Windlass needs Python 3.11 or newer; set PYTHON=python3.11"; exit 1; }
	@echo "setting up $(VENV) (about half a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lock.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

up: install ## from a bare checkout to a running platform, with the demo's tenants
	@$(BIN)/windlass up --demo

demo: install ## the whole story on a private platform, in under a minute
	@$(BIN)/windlass demo

check: install ## format, lint, types, import contracts, docs
	@$(BIN)/ruff format --check src tests benchmarks tools
	@$(BIN)/ruff check src tests benchmarks tools
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest tests/architecture tests/docs -n 2 -m 'not slow'

test: check ## everything: the checks, then the default tests
	@$(BIN)/pytest -n 2 tests

test-pg: install ## the control plane's tests on a real PostgreSQL, and those of replicas
	@bin=$$($(BIN)/python -m tools.postgres_binaries) && WINDLASS_TEST_STORE=postgres WINDLASS_TEST_PG_BIN=$$bin \
	  $(BIN)/pytest -n 2 tests/control tests/postgres

test-faults: install ## processes killed and frozen at random, on both databases (KILLS=n CLIENTS=n); more simulation (SIMULATIONS=n FIRST=seed)
	@bin=$$($(BIN)/python -m tools.postgres_binaries) && WINDLASS_TEST_PG_BIN=$$bin \
	  WINDLASS_FAULTS_KILLS=$${KILLS:-500} WINDLASS_FAULTS_CLIENTS=$${CLIENTS:-64} $(BIN)/pytest tests/faults -m faults
	@WINDLASS_SIMULATIONS=$${SIMULATIONS:-2000} WINDLASS_SIMULATION_FIRST=$${FIRST:-1000} \
	  $(BIN)/pytest -n 2 tests/simulation -k promise

test-kube: install ## manifests in a real Kubernetes with Kueue; the first build of both takes a quarter of an hour
	@$(BIN)/python -m tools.kube_schemas >/dev/null && $(BIN)/pytest tests/core/compiler/kubernetes/test_kube_schemas.py
	@$(BIN)/pytest tests/kube -m kube

test-prom: install ## dashboards and alerts in a real Prometheus (from PATH, or Debian's, kept in ~/.cache)
	@$(BIN)/pytest tests/prom -n 2 --dist loadfile

test-slurm: install ## what is written for Slurm, run by a real one (from PATH, or Debian's, kept in ~/.cache)
	@$(BIN)/pytest tests/slurm -rs

test-containers: install ## jobs in containers of a real podman (Debian's, kept in ~/.cache); as root
	@$(BIN)/pytest tests/containers -m containers -rs

test-api: install ## the whole API against its own description (schemathesis, kept in ~/.cache)
	@$(BIN)/python -m tools.api_fuzz

test-oidc: install ## logins with a real OpenID provider; Node and it go to a cache outside the checkout
	@$(BIN)/pytest tests/oidc -m oidc

bench: install ## every benchmark in quick form, one table
	@$(BIN)/python -m benchmarks

performance: install ## Windlass beside its peers: docs/performance.md anew, in about five minutes
	@$(BIN)/python -m benchmarks.performance --date $${DATE:-$$(date +%F)}

format: install ## let ruff rewrite what it can
	@$(BIN)/ruff format src tests benchmarks tools
	@$(BIN)/ruff check --fix src tests benchmarks tools

goldens: install ## rewrite the golden files and the generated reference; read the diff
	@WINDLASS_GOLDENS=write $(BIN)/pytest tests -n 2 -m golden
	@$(BIN)/python -m tools.reference

lock: install ## resolve the dependencies again (needs uv)
	uv pip compile pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 \
	  --no-emit-index-url --no-annotate --no-header --upgrade -o requirements/lock.txt

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
