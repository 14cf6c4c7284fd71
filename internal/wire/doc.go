// Package wire holds what the operator and the agents say to each other, and where in the pod they find it.
//
// The operator writes [Settings] into a ConfigMap that is mounted into the pod; the agent answers with a [Report] over
// mutual TLS. Both carry the number of their version. Operator and agent are upgraded at different times, so a message
// of an unknown version, or with a field that its version does not have, is refused as a whole: half-understood
// settings are worse than old ones. A new field is therefore a new version, and testdata keeps the golden JSON of
// every version that was ever sent.
//
// The package is pure: it encodes, decodes, checks and hashes, and knows neither Kubernetes nor PostgreSQL's files.
//
// Start reading at [Settings], then [Report].
package wire
