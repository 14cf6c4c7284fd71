// Package e2e tests the product on a real cluster: real nodes, volumes and PostgreSQL. The tests carry the build tag
// `cluster` and want a running sandbox:
//
//	bin/sandbox up && go test -tags cluster -parallel 2 ./test/e2e/
//
// Tests that hurt a node or the operator, or that hold a time against a promise, have the cluster for themselves. The
// others come after them, two at a time, because most of a change is waiting. Each has a namespace of its own.
//
// Start reading at TestThread.
package e2e
