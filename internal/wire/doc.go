// Package wire holds what the operator and the agents say to each other, and where in the pod they find it.
//
// The operator writes [Settings] into a ConfigMap that is mounted into the pod; the agent answers with a [Report] over
// mutual TLS. Both carry the number of their version, and one of an unknown version is refused as a whole. Operator and
// agents are upgraded at different times, and an upgrade of the operator restarts nothing (ADR 0013):
//
//   - What is obeyed (settings, the record of a lease, requests of peers) is refused with a field that is unknown:
//     half-understood settings are worse than old ones. A new field is left out while it says nothing new, so that
//     agents of before go on with everything that they know.
//   - What is only told (reports) is read without the fields that are unknown.
//
// testdata keeps the golden JSON of every version that was ever sent.
//
// The package is pure: it encodes, decodes, checks and hashes, and knows neither Kubernetes nor PostgreSQL's files.
//
// Start reading at [Settings], then [Report].
package wire
