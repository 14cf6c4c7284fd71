// Package render turns a design into Kubernetes objects. It is pure: the same design gives the same objects, byte for
// byte, and testdata holds them as golden YAML.
//
// Secrets are rendered from values that act brings along; everything else from the design alone. A change here can
// empty every cache of every user at the next upgrade of the operator, so the golden files are read in review.
//
// Start reading at Children; what goes into a pod is in pod.go.
package render
