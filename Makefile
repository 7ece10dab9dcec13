# make help tells what there is. The targets only name what the scripts and commands do.
.DEFAULT_GOAL := help
SHELL := /bin/bash
TOOL := go tool -modfile=tools/go.mod

.PHONY: help build demo test test-full certify lint bench fuzz torture mutants services generate format

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

build: ## bin/relay and bin/inboxctl
	go build -trimpath -o bin/ ./cmd/...

demo: ## the whole way with real servers, a killed relay and a lost answer; under 3 minutes after downloads
	@go run ./examples/orders/demo $(ARGS)

test: ## what every change must pass: checks and tests with -race on real servers, up to 30 minutes
	tools/test.sh short

test-full: ## the nightly tier: all versions, clusters of three, crash matrix, long runs
	tools/test.sh full

certify: ## the release gate: everything, no skip for want of a server, and the support matrix
	REQUIRE_SERVICES=1 tools/test.sh certify
	@cat docs/support-matrix.md

lint: ## golangci-lint in its pinned version, and shellcheck where there is one
	$(TOOL) golangci-lint run ./...
	@if command -v shellcheck >/dev/null; then shellcheck -x .ci/run $$(find tools examples -name '*.sh'); \
	else echo "shellcheck is not installed: shell scripts were not checked (apt-get install shellcheck)"; fi

bench: ## drain rate, latency, WAL and CPU per message beside the machine's own floor; ARGS="--rows 10000"
	@tools/bench.sh $(ARGS)

fuzz: ## every fuzz target for some seconds: EACH=60; a failing input is kept in testdata/fuzz
	@tools/fuzz.sh $(EACH)

torture: ## a fleet under a seeded nemesis, judged by a checker: SEED=7 MINUTES=30 REPORT=file ARGS="-rate 300"
	@tools/torture.sh "$(SEED)" "$(MINUTES)" "$(REPORT)" $(ARGS)

mutants: ## relays without one of their safeguards: the checker must find each; MUTANT=name for one
	@tools/mutants.sh $(MUTANT)

services: ## start the test servers and print how to use and to stop them
	@mkdir -p .services && tools/services/up.sh >.services/env.new && mv .services/env.new .services/env
	@cat .services/env
	@echo
	@echo "use them:   set -a; . .services/env; set +a"
	@echo "stop them:  tools/services/down.sh      (tools/services/up.sh destroy forgets their data too)"

generate: ## everything that is generated: queries, configuration reference and schema, names in docs/failure-cases.md
	tools/sqlc.sh generate
	go generate ./...
	go test ./internal/archtest -run TestFailureCasesAreListed -update

format: ## gofumpt and import order
	$(TOOL) golangci-lint fmt
