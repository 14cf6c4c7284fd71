// Package e2e tests the product on a real cluster: real nodes, volumes and PostgreSQL. The tests carry the build tag
// `cluster` and want a running sandbox:
//
//	bin/sandbox up && go test -tags cluster ./test/e2e/
//
// Start reading at TestThread.
package e2e
