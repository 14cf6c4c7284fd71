// Package test tries the sandbox on the machine it runs on, from the outside: with its command and with kubectl. The
// tests need root and have the build tag "cluster"; they start the sandbox if it is not up, and only then end it
// again.
package test
