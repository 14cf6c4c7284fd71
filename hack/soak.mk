# The verbs for a machine that is free: long searches, whole tables, other versions. None is part of `make test`.

# Versions of Kubernetes beside the default one that the sandbox can boot. Each takes minutes to build, once.
MATRIX := 1.35 1.33

# How much `make sim` searches; how often `make e2e-failover` does each fault, and which: all, short, or names.
SEEDS ?= 2000
EVERY ?= 20
RUNS ?= 5
TIME ?=
FAULTS ?= all
# How many sequences `make test-model` does to each version of PostgreSQL.
SEQUENCES ?= 100

.PHONY: soak test-model sim sim-bites sim-fidelity e2e-failover e2e-environments e2e-chaos e2e-backup specs test-agent test-matrix vuln

##@ Search it (hours)

soak: ## Run all that `make test` leaves out: every simulation, every seeded bug, the whole tables, half an hour of chaos
	$(call stage,Every mistake that was put in is found,sim-bites)
	$(call stage,Searches of the simulator,sim EVERY=1 TIME=$(or $(TIME),1h))
	$(call stage,The model of PostgreSQL and real servers,test-model SEQUENCES=1000)
	$(call stage,Random changes of specs,specs)
	$(call stage,The simulated API server and a real one,sim-fidelity SEQUENCES=20000)
	$(call stage,The sandbox: its start is broken off at many moments,test-sandbox HOW=-crashes=all)
	$(call stage,Every fault on a real cluster,e2e-failover)
	$(call stage,Clusters as people run them,e2e-environments)
	$(call stage,Random faults on a real cluster,e2e-chaos TIME=30m)
	$(call stage,Backups: figures and every fault,e2e-backup)

sim: ## Search for schedules that break a rule: SEEDS=20000, FROM=1, or TIME=1h; then single faults, EVERY=1 for all of them
	go test -count=1 -timeout 24h -v ./test/sim -run TestSwarm -from $(or $(FROM),1) $(if $(TIME),-time $(TIME),-seeds $(SEEDS))
	go test -count=1 -timeout 24h -v ./test/sim -run TestCallFaults -calls $(if $(filter 1,$(EVERY)),1,6)
	go test -count=1 -timeout 24h -v ./test/sim -run TestSingleFaults -every $(EVERY) -caches 1
	go test -count=1 -timeout 24h -v ./test/sim -run TestWhole -seeds $(SEEDS) -every $(EVERY) -calls 18
	go test -count=1 -timeout 24h -v ./test/sim/operated -run Swarm -from $(or $(FROM),1) $(if $(TIME),-time $(TIME),-seeds $$(($(SEEDS)/100+1)))
	go test -count=1 -timeout 24h -v ./test/sim/operated -run TestCallFaults -calls $(if $(filter 1,$(EVERY)),10,40)
	go test -count=1 -timeout 24h -v ./test/sim/lives -run TestSwarm -from $(or $(FROM),1) $(if $(TIME),-time $(TIME),-seeds $$(($(SEEDS)/100+1)))
	go test -count=1 -timeout 24h -v ./test/sim/lives -run TestSingleFaults -wider -every $(EVERY)
	go test -count=1 -timeout 24h -v ./test/sim/lives -run 'TestSpecs$$' -specs $(SEEDS) -specs-from $(or $(FROM),1)
sim-bites: ## Show that the simulator finds every mistake that was put in on purpose, and after how many schedules
	go test -count=1 -timeout 2h -v ./test/sim -run TestBites -bite 2000
	go test -count=1 -timeout 2h -v ./test/sim/lives -run TestBites -bite
	go test -count=1 -timeout 2h -v ./test/sim/operated -run TestBites -bite 50

sim-fidelity: bin/sandbox ## Do the same to the simulated API server and to a real one: SEQUENCES=20000 SEED=1
	go test -tags=cluster -count=1 -timeout 24h -v ./kit/sim/ -run 'TestFidelity$$' -sequences $(SEQUENCES) -seed $(or $(SEED),1)

specs: bin/sandbox ## Change specs at random on a real API server, valid and nearly so: CHANGES=20000 SEED=1
	go test -tags=cluster -count=1 -timeout 24h -v ./test/api/ -run 'TestSpecs$$' -changes $(or $(CHANGES),20000) -seed $(or $(SEED),1)

e2e-failover: bin/sandbox ## Do every fault RUNS times to a database under traffic and print the table (not part of `make test`)
	bin/sandbox up && bin/sandbox image build meridian --load
	go test -tags=cluster -count=1 -timeout 3h -v ./test/e2e/ -changes=all \
	  -run 'TestFailover|TestRepairs|TestRolling|TestSleep|TestRotation|TestGrowth|TestWindow|TestCacheFaults' -runs=$(RUNS) -faults='$(FAULTS)' | grep --line-buffered -v '^=== '

e2e-environments: bin/sandbox ## Have a database in each kind of cluster that people run: ENVIRONMENTS='quota;deny' CALM=5m
	bin/sandbox up
	go test -tags=cluster -count=1 -timeout 3h -v ./test/e2e/ -run TestEnvironments -environments='$(or $(ENVIRONMENTS),all)' \
	  -calm=$(or $(CALM),5m) | grep --line-buffered -v '^=== '

e2e-chaos: bin/sandbox ## Do random overlapping faults to a database under traffic: TIME=30m SEED=1
	bin/sandbox up && bin/sandbox image build meridian --load
	go test -tags=cluster -count=1 -timeout 24h -v ./test/e2e/ -run TestChaos -chaos=$(or $(TIME),30m) -seed=$(or $(SEED),1) | \
	  grep --line-buffered -v '^=== '

e2e-backup: bin/sandbox ## Measure what backups cost and give, and do every fault to them: SIZE=10Gi INSTANCES=1, CASES=short for fewer faults
	bin/sandbox up && bin/sandbox image build meridian --load
	go test -tags=cluster -count=1 -timeout 3h -v ./test/e2e/ -figures=$(or $(SIZE),1Gi) -figures-instances=$(or $(INSTANCES),3) \
	  -run 'TestBackupFigures|TestBackup$$|TestBackupOnAClaim|TestRestoreOfWhatIsGone' -backups='$(or $(CASES),all)' | grep --line-buffered -v '^=== '

test-agent: bin/sandbox ## Test the agent with the PostgreSQL of this machine, or of IMAGE=postgis-17 (Linux, root)
	go test -p 1 -tags=cluster -count=1 -timeout 30m $(if $(IMAGE),-exec '$(CURDIR)/hack/in-image $(IMAGE)') -v \
	  ./internal/agent/ ./internal/postgres/{controller,server}/ ./test/backup/ | grep --line-buffered -v '^=== '

test-model: bin/sandbox ## Do the same to the model of PostgreSQL and to servers of the images: SEQUENCES=5000 FROM=1 (Linux, root)
	for image in postgis-15 postgis-17; do go test -tags=cluster -count=1 -parallel 6 -timeout 24h -exec "$(CURDIR)/hack/in-image $$image" -v \
	  ./test/sim/pgmodel/ -run TestFidelity -sequences $(SEQUENCES) -from $(or $(FROM),1) -workers 6 | grep --line-buffered -v '^=== '; done

test-matrix: bin/sandbox ## Boot and test each other Kubernetes version (not part of `make test`)
	cd sandbox && for version in $(MATRIX); do \
	  go test -tags=cluster -count=1 -timeout 40m -v ./test/ -args -kubernetes=$$version | grep --line-buffered -v '^=== '; \
	  (cd .. && MERIDIAN_TEST_KUBERNETES=$$version go test -tags=cluster -count=1 -timeout 40m ./test/api/); done

vuln: ## Fail if a known vulnerability is in code that is called, by vuln.go.dev or GOVULNDB=file:///FOLDER if it can be read
	@hack/vuln.sh $(TOOL) govulncheck
