// Package arch holds the rules of this repository that a machine can check, and checks them: who may import whom, what
// pure code may not do, sizes, names, and that ARCHITECTURE.md tells the truth about the tree.
//
// It reads source text through an fs.FS and nothing else: it runs no tool, builds nothing and needs no network, so it
// is the first test to fail and the fastest. Start reading at Rules; each rule says why it exists. The rules run over
// the whole repository, the sandbox module included, in arch_test.go; checks_test.go shows that each one can fail.
package arch

import (
	"fmt"
	"sort"
)

// Module is the path of the main module; the sandbox module lies below it.
const Module = "meridian.dev/meridian"

// Rule is one law of the repository.
type Rule struct {
	Name  string
	Why   string
	Check func(*Repo) []Finding
}

// Finding is one breach of a rule.
type Finding struct {
	Where string // path, with a line number where there is one
	What  string // what is wrong, and the way out when it is not plain
}

func (f Finding) String() string { return f.Where + ": " + f.What }

// Rules is every law, in the order in which a reader meets the repository.
var Rules = []Rule{
	{"tree", "a layout document that rots misleads more than none", checkTree},
	{"folders", "an empty folder promises what is not there", checkFolders},
	{"imports", "a layer is a layer only while nobody reaches around it", checkImports},
	{"modules", "the operator's users must not download the sandbox's dependencies", checkModules},
	{"purity", "a pure decision can be printed, replayed and simulated", checkPurity},
	{"api", "what users write is kept for years, and tools expect the conventions of Kubernetes", checkAPI},
	{"records", "a reader must find what changed, and whether a decision still holds", checkRecords},
	{"citations", "a comment that leads nowhere costs a reader more than none", checkCitations},
	{"docs", "a package that cannot say what it is should not be one", checkDocs},
	{"examples", "a kit package without an example that compiles is not for others to use", checkExamples},
	{"names", "a name that fits everything gathers everything", checkNames},
	{"sizes", "what fits on a screen gets read", checkSizes},
}

// Limits of size. Tests and API types are lists by nature, so they get more room.
const (
	MaxFunctionLines = 70
	MaxFileLines     = 500
	MaxListFileLines = 800
	MaxPackageLines  = 2500
	MaxParameters    = 5
	MaxLineWidth     = 120
	MaxFolderDepth   = 5
	MaxMakefileLines = 150
)

func sorted(findings []Finding) []Finding {
	sort.Slice(findings, func(i, j int) bool {
		if findings[i].Where != findings[j].Where {
			return findings[i].Where < findings[j].Where
		}
		return findings[i].What < findings[j].What
	})
	return findings
}

func finding(where, format string, args ...any) Finding {
	return Finding{Where: where, What: fmt.Sprintf(format, args...)}
}
