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
# As in sandbox/compile. Tests, generator and linter go by them as well, so that nothing is compiled twice.
BUILD_FLAGS := -trimpath -gcflags=all=-dwarf=false
# What `go vet` finds `make lint` finds as well, and for go test it would read all that is imported once more.
FLAGS := $(BUILD_FLAGS) -vet=off
export GOFLAGS := $(filter-out $(FLAGS),$(shell go env GOFLAGS 2>/dev/null)) $(FLAGS)

# The race detector needs a C compiler with headers. Without one the tests still run, and say so.
HAVE_CC := $(shell printf '\43include <stdlib.h>\n' | cc -E - >/dev/null 2>&1 && echo yes)
UNIT_TEST := $(if $(HAVE_CC),CGO_ENABLED=1 go test -race,go test) -timeout 30m
# It runs where goroutines are: a package that starts none and locks nothing has nothing to race, and is several times
# faster without. Those that are left out here have one thread each, and much to do.
ONE_THREAD := ^(kit/(apply|rbac|sim/search)|internal/(admit|arch|(cache|database)/controller|postgres/(plan|render)))$$
RACY := $(if $(HAVE_CC),$(shell grep -rlE '\<go func|^\s+go [a-zA-Z]|"sync' --include='*.go' cmd internal kit | \
  xargs dirname | sort -u | grep -vE '$(ONE_THREAD)' | sed 's|^|meridian.dev/meridian/|'))

# Tools are pinned in a module of their own and built by Go itself, so nothing is installed by hand.
LINT := golangci-lint run --timeout 20m
TOOL := go tool -modfile=$(CURDIR)/hack/tools/go.mod

# $(call stage,title,verb) runs another verb of this file and prints what it does and how long it took.
define stage
@printf '\n==> %s (make %s)\n' '$(1)' '$(2)'; start=$$SECONDS; \
if $(MAKE) $(2); then printf '<== %s: ok, %ds\n' '$(1)' "$$((SECONDS-start))"; \
else printf '<== %s: FAILED after %ds; again with: make %s\n' '$(1)' "$$((SECONDS-start))" '$(2)'; exit 1; fi
endef

# Every verb is one: none is a file that make could find up to date.
.PHONY: demo demo-down sandbox sandbox-down images build gen fmt test test-alone test-waiting test-cluster check \
  gen-check lint lint-changed test-unit test-plain test-api test-e2e test-sandbox sbom clean help bin/sandbox

# Compilers, the linter and tests have memory to spare, and collect garbage more rarely for it. A sandbox does not.
build gen gen-check lint lint-changed test-unit test-plain bin/sandbox: export GOGC ?= 400

##@ Try it

# Kubernetes takes longest to build, so it begins before the rest; `sandbox up` waits for it, and tells what went wrong.
demo: ## From nothing to a map database with replicas, a cache and backups, in one command (Linux, root)
	@stop() { echo "demo: $$1; see README.md, What you need" >&2; exit 1; }; \
	[ "$$(uname -s)" = Linux ] || stop 'it needs Linux'; [ "$$(id -u)" = 0 ] || stop 'it needs root: sudo make demo'; \
	command -v go >/dev/null || stop 'there is no Go: install 1.26 or newer'; \
	hack/modules.sh; echo 'Building the tools of this repository (seconds, the first time minutes)'; $(MAKE) -s bin/sandbox; \
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
	go build $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
gen: ## Write every generated file anew
	go run ./hack/gen
fmt: ## Format the Go files of both modules
	$(TOOL) golangci-lint fmt && cd sandbox && $(TOOL) golangci-lint fmt --config ../.golangci.yml

##@ Check it

check: ## Try a change while you work on it: all but the race detector and the clusters
	$(call stage,Generated files are current,gen-check)
	$(call stage,Lint of what has changed,lint-changed)
	$(call stage,Unit tests and a sample of the simulations,test-plain RACY=)

test: bin/sandbox ## Run everything that a change must pass, stage by stage (Linux, root)
	@hack/with-sandbox.sh test-cluster test-alone test-waiting

test-alone: # The stages of `make test` that need no cluster. What takes no notice of the clock comes first.
	$(call stage,Generated files are current,gen-check)
	$(call stage,Lint of all modules,lint)
	$(call stage,Known vulnerabilities,vuln)
	$(call stage,Unit tests of both modules,test-unit)
	$(call stage,Rules and rights on a real API server,test-api)

test-waiting: # The one that waits most of its time.
	$(call stage,The model of PostgreSQL and real servers,test-model)

test-cluster: # Those that need one.
	$(call stage,The sandbox and its images,test-sandbox HOW=-keep)
	$(call stage,A database on a real cluster,test-e2e)

gen-check: ## Fail if `make gen` would change a file
	go run ./hack/gen -check
lint: ## Run the linter on both modules
	$(TOOL) $(LINT) ./...
	cd sandbox && $(TOOL) $(LINT) --config ../.golangci.yml ./...
	cd test/monitoring && $(TOOL) $(LINT) --config ../../.golangci.yml ./...
	go vet $$(grep -rlx '//go:build !cluster' --include=*.go . | xargs dirname | sort -u) # The linter reads with that tag.
lint-changed: ## Run it on the packages that differ from where this branch has left main; BASE=REVISION for another place
	@hack/lint-changed.sh $(TOOL) $(LINT)

test-unit: ## Run the tests that need no cluster
	@$(if $(HAVE_CC),:,echo 'No C compiler: the race detector is off.')
	$(if $(RACY),CGO_ENABLED=1 go test -race -timeout 30m $(RACY))
	@$(MAKE) test-plain
	cd sandbox && $(UNIT_TEST) ./...
	cd test/monitoring && go test -count=1 ./... # The alert rules, with the engine of a real Prometheus.

test-plain: ## Run those for which the race detector has nothing to find, and a sample of the simulations
	go test -timeout 30m $$(go list ./... | grep -vxF -f <(printf '%s\n' none $(RACY)))

# What needs no API server has run before, in the same packages.
API := test/api internal/database/controller internal/operator internal/backup/keep internal/backup/store/cloud kit/sim
test-api: bin/sandbox ## Test rules and rights on an API server without nodes
	go test -p 2 -tags=cluster -count=1 -timeout 20m $(API:%=./%/) -run "^($$(grep -lx '//go:build cluster' $(API:%=%/*_test.go) | \
	  xargs sed -n 's/^func \(Test[A-Z][A-Za-z0-9]*\).*/\1/p' | sort -u | paste -sd '|'))\$$"

test-e2e: bin/sandbox ## Test databases on the sandbox, which is started if it is not up (Linux, root)
	@bin/sandbox status &>/dev/null || trap 'bin/sandbox down' EXIT; \
	bin/sandbox up && go test -tags=cluster -count=1 -parallel 3 -timeout 40m -v ./test/e2e/ | grep --line-buffered -v '^=== '

test-sandbox: bin/sandbox ## Boot the sandbox and test it and its images (Linux, root, minutes)
	cd sandbox && go test -tags=cluster -count=1 -timeout 40m -v ./test/ $(HOW) | grep --line-buffered -v '^=== '
	cd sandbox && go test -tags=cluster -count=1 -timeout 40m -v ./image/ | grep --line-buffered -v '^=== '

include hack/soak.mk # What takes longer than a change should wait for: searches, full tables, other versions.

##@ Other

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
	cd sandbox && go build $(BUILD_FLAGS) -o ../bin/sandbox ./cmd/sandbox
