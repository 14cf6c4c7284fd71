# The verbs of this repository. `make` alone lists them. At most 150 lines, checked by internal/arch.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Everything is built static: the agent is copied into images that Meridian did not make.
export CGO_ENABLED := 0
BUILD_FLAGS := -trimpath -gcflags=all=-dwarf=false # As in sandbox/compile, so that nothing is compiled twice.

# The race detector needs a C compiler with headers. Without one the tests still run, and say so.
HAVE_CC := $(shell printf '\43include <stdlib.h>\n' | cc -E - >/dev/null 2>&1 && echo yes)
UNIT_TEST := $(if $(HAVE_CC),CGO_ENABLED=1 go test -race,go test) -timeout 30m
ONE_THREAD := /kit/sim/search$$|/internal/admit$$|/(cache|database)/controller$$|/plan$$|/kit/(apply|names|rbac)$$

# Tools are pinned in a module of their own and built by Go itself, so nothing is installed by hand.
LINT := golangci-lint run --timeout 20m
TOOL := go tool -modfile=$(CURDIR)/hack/tools/go.mod

# Versions of Kubernetes beside the default one that the sandbox can boot. Each takes minutes to build, once.
MATRIX := 1.35

# How much `make sim` searches; how often `make e2e-failover` does each fault, and which: all, short, or names.
SEEDS ?= 2000
EVERY ?= 20
RUNS ?= 5
FAULTS ?= all

# $(call stage,title,verb) runs another verb of this file and prints what it does and how long it took.
define stage
@printf '\n==> %s (make %s)\n' '$(1)' '$(2)'; start=$$SECONDS; \
if $(MAKE) $(2); then printf '<== %s: ok, %ds\n' '$(1)' "$$((SECONDS-start))"; \
else printf '<== %s: FAILED after %ds; again with: make %s\n' '$(1)' "$$((SECONDS-start))" '$(2)'; exit 1; fi
endef

# Every verb is one: none is a file that make could find up to date.
.PHONY: demo demo-down sandbox sandbox-down images build gen fmt test gen-check lint test-unit test-api test-e2e sim \
  sim-bites e2e-failover test-agent test-sandbox test-matrix vuln sbom clean help bin/sandbox

##@ Try it

# Kubernetes takes longest to build, so it begins before the rest; `sandbox up` waits for it, and tells what went wrong.
demo: ## From nothing to a map database with replicas and a cache, in one command (Linux, root)
	@stop() { echo "demo: $$1; see README.md, What you need" >&2; exit 1; }; \
	[ "$$(uname -s)" = Linux ] || stop 'it needs Linux'; [ "$$(id -u)" = 0 ] || stop 'it needs root: sudo make demo'; \
	command -v go >/dev/null || stop 'there is no Go: install 1.26 or newer'; \
	echo 'Building the tools of this repository (seconds, the first time minutes)'; $(MAKE) -s bin/sandbox; \
	bin/sandbox parts >&/dev/null & trap "kill $$! 2>&- || :" EXIT; $(MAKE) -s build && go run $(BUILD_FLAGS) ./hack/demo

demo-down: bin/sandbox ## Remove what the demo has made, and nothing else
	@go run $(BUILD_FLAGS) ./hack/demo down

sandbox: bin/sandbox ## Start a real 3-node Kubernetes on this machine (Linux, root)
	bin/sandbox up
sandbox-down: bin/sandbox ## Stop it and leave nothing behind
	bin/sandbox down && rm -rf .sandbox
images: bin/sandbox ## Build the images without Docker
	bin/sandbox image build

##@ Change it

build: ## Build bin/meridian and the plugin bin/kubectl-meridian
	GOGC=400 go build $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
gen: ## Write every generated file anew
	go run ./hack/gen
fmt: ## Format the Go files of both modules
	$(TOOL) golangci-lint fmt && cd sandbox && $(TOOL) golangci-lint fmt --config ../.golangci.yml

##@ Check it

test: ## Run everything that a change must pass, stage by stage
	$(call stage,Generated files are current,gen-check)
	$(call stage,Lint of both modules,lint)
	$(call stage,Unit tests of both modules,test-unit)
	$(call stage,Rules and rights on a real API server,test-api)
	$(call stage,The sandbox and its images,test-sandbox)
	$(call stage,A database on a real cluster,test-e2e)

gen-check: ## Fail if `make gen` would change a file
	go run ./hack/gen -check
lint: ## Run the linter on both modules
	$(TOOL) $(LINT) ./...
	cd sandbox && $(TOOL) $(LINT) --config ../.golangci.yml ./...
	cd test/monitoring && $(TOOL) $(LINT) --config ../../.golangci.yml ./...

test-unit: ## Run the tests that need no cluster
	@$(if $(HAVE_CC),:,echo 'No C compiler: the race detector is off.')
	$(UNIT_TEST) $$(go list ./... | grep -v -E '$(ONE_THREAD)|/test/sim$$|/test/sim/lives$$')
	go test -timeout 30m $$(go list ./... | grep -E '$(ONE_THREAD)') # One thread each: nothing races.
	go test -timeout 30m ./test/sim ./test/sim/lives # Every fault at every API call, a sample of all else: see `make sim`.
	cd sandbox && $(UNIT_TEST) ./...
	cd test/monitoring && go test -count=1 ./... # The alert rules, with the engine of a real Prometheus.

test-api: bin/sandbox ## Test rules and rights on an API server without nodes
	go test -p 1 -tags=cluster -count=1 -timeout 20m ./test/api/ ./internal/{database/controller,operator}/ ./kit/sim/

test-e2e: bin/sandbox ## Test databases on the sandbox, which is started if it is not up (Linux, root)
	@bin/sandbox status >/dev/null 2>&1 && up=yes || up=no; \
	bin/sandbox up && go test -tags=cluster -count=1 -timeout 40m -v ./test/e2e/ | grep --line-buffered -v '^=== '; \
	if [ $$up = no ]; then bin/sandbox down; fi

sim: ## Search for schedules that break a rule: SEEDS=20000, FROM=1, or TIME=1h; then single faults, EVERY=1 for all of them
	go test -count=1 -timeout 24h -v ./test/sim -run TestSwarm -from $(or $(FROM),1) $(if $(TIME),-time $(TIME),-seeds $(SEEDS))
	go test -count=1 -timeout 24h -v ./test/sim -run TestSingleFaults -every $(EVERY) -caches 1
	go test -count=1 -timeout 24h -v ./test/sim/lives -run TestSwarm -from $(or $(FROM),1) $(if $(TIME),-time $(TIME),-seeds $$(($(SEEDS)/100+1)))
	go test -count=1 -timeout 24h -v ./test/sim/lives -run TestSingleFaults -wider -every $(EVERY)
sim-bites: ## Show that the simulator finds every mistake that was put in on purpose, and after how many schedules
	go test -count=1 -timeout 2h -v ./test/sim -run TestBites -bite 2000
	go test -count=1 -timeout 2h -v ./test/sim/lives -run TestBites -bite

e2e-failover: bin/sandbox ## Do every fault RUNS times to a database under traffic and print the table (not part of `make test`)
	bin/sandbox up && bin/sandbox image build meridian --load
	go test -tags=cluster -count=1 -timeout 3h -v ./test/e2e/ -changes=all \
	  -run 'TestFailover|TestRepairs|TestRolling|TestSleep|TestRotation|TestGrowth|TestWindow|TestCacheFaults' -runs=$(RUNS) -faults='$(FAULTS)' | grep --line-buffered -v '^=== '

test-agent: ## Test the agent with a PostgreSQL and PostGIS installed on this machine (not part of `make test`)
	go test -p 1 -tags=cluster -count=1 -timeout 20m -v ./internal/agent/ ./internal/postgres/{controller,server}/ ./test/sim/pgmodel/ | grep --line-buffered -v '^=== '

test-sandbox: bin/sandbox ## Boot the sandbox and test it and its images (Linux, root, minutes)
	cd sandbox && go test -p 1 -tags=cluster -count=1 -timeout 40m -v ./test/ ./image/ | grep --line-buffered -v '^=== '

test-matrix: bin/sandbox ## Boot and test each other Kubernetes version (not part of `make test`)
	cd sandbox && for version in $(MATRIX); do \
	  go test -tags=cluster -count=1 -timeout 40m -v ./test/ -args -kubernetes=$$version | grep --line-buffered -v '^=== '; done

##@ Other

vuln: ## Fail if a known vulnerability is in code that is called; needs vuln.go.dev, or GOVULNDB=file:///FOLDER
	$(TOOL) govulncheck ./... && cd sandbox && $(TOOL) govulncheck ./...
sbom: build bin/sandbox ## Say what is in the programs and the images, as SPDX documents in bin/
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} go run ./hack/sbom -out bin bin/meridian \
	  bin/kubectl-meridian $$(bin/sandbox image build | awk '/\.tar$$/ {print $$NF}')
clean: ## Remove what was built here; the cache of the sandbox stays
	rm -rf bin

help: ## List the verbs
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Always asked, because Go knows better than make whether the sandbox has changed.
bin/sandbox:
	cd sandbox && GOGC=400 go build $(BUILD_FLAGS) -o ../bin/sandbox ./cmd/sandbox
