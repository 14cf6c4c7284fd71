// Command gen makes every generated file of the repository: deep copies and custom resource definitions from the API
// types, the API reference from their comments, and the operator's manifests from the operator itself. Run it from the
// root: `go run ./hack/gen`, or `make gen`.
//
// It generates into a scratch folder first and then either copies what differs (so that a second run changes nothing)
// or, with -check, says what differs and fails. It compares with the files on disk, not with a commit, so it works in
// the middle of a change. Start reading at generators.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// generator writes files below scratch, at the place that they have below root.
type generator struct {
	name string
	run  func(root, scratch string) error
}

// generators is everything that is generated.
var generators = []generator{
	{"deep copies and custom resource definitions", generateObjects},
	{"API reference", generateReference},
	{"table of changes", generateChanges},
	{"page of rules", generateRules},
	{"glossary", generateGlossary},
	{"installation", generateInstallation},
}

// owned are the places where every file is generated: what lies there and was not made by this run is left over from a
// type that is gone.
var owned = []string{
	"api/*/zz_generated.*.go",
	"deploy/*.yaml",
	"deploy/crds/*.yaml",
	"docs/reference/*.md",
}

var errStale = errors.New("generated files are not current: run `make gen` and commit the result")

func main() {
	check := flag.Bool("check", false, "change nothing; fail if something would change")
	flag.Parse()
	if err := run(".", *check, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "gen: %v\n", err)
		os.Exit(1)
	}
}

func run(root string, check bool, out io.Writer) error {
	if _, err := os.Stat(filepath.Join(root, "hack", "gen", "main.go")); err != nil {
		return errors.New("run it from the root of the repository")
	}
	scratch, err := os.MkdirTemp("", "meridian-gen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // Leftovers in the temporary folder harm nobody.
	for _, generator := range generators {
		if err := generator.run(root, scratch); err != nil {
			return fmt.Errorf("generate %s: %w", generator.name, err)
		}
	}
	changes, err := compare(root, scratch, owned)
	if err != nil {
		return err
	}
	return settle(changes, check, out)
}

// settle prints each change, and carries it out unless it is only asked for.
func settle(changes []change, check bool, out io.Writer) error {
	for _, change := range changes {
		if _, err := fmt.Fprintf(out, "%s %s\n", change.verb, change.path); err != nil {
			return err
		}
		if check {
			continue
		}
		if err := change.apply(); err != nil {
			return fmt.Errorf("%s %s: %w", change.verb, change.path, err)
		}
	}
	if check && len(changes) > 0 {
		return errStale
	}
	return nil
}
