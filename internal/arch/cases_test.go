package arch_test

import "strings"

// ruleCase is a small tree and what a rule says about it.
type ruleCase struct {
	files files
	want  []string
}

const drawing = "# Architecture\n\n## The tree\n```\napi/v1/     types\ninternal/\n" +
	"  arch/     rules\nkit/        tools\n```\n"

// ruleCases has, for each rule, what it accepts and what it refuses.
var ruleCases = map[string]map[string]ruleCase{
	"tree":      treeCases,
	"folders":   folderCases,
	"imports":   importCases,
	"modules":   moduleCases,
	"purity":    purityCases,
	"api":       apiCases,
	"records":   recordCases,
	"citations": citationCases,
	"docs":      docCases,
	"examples":  exampleCases,
	"names":     nameCases,
	"sizes":     sizeCases,
}

var citationCases = map[string]ruleCase{
	"what exists": {files: files{
		"kit/a/a.go":           "// Package a has ADR 7; docs/runbook/<Reason>.md says why, kit/a/a.go how.\npackage a",
		"docs/adr/0007-why.md": "", "docs/runbook/X.md": "",
		"kit/b/b.go": "package b\n\nconst link = \"docs/gone.md\" // see https://example.org/docs/other.md",
	}},
	"what does not": {
		files: files{
			"kit/a/a.go":           "// Package a follows docs/gone.md.\npackage a\n\nfunc f() {} // As ADR 8 says.",
			"docs/adr/0007-why.md": "",
		},
		want: []string{
			"kit/a/a.go:1: the comment cites docs/gone.md, which does not exist",
			"kit/a/a.go:4: the comment cites ADR 8, which does not exist",
		},
	},
}

var treeCases = map[string]ruleCase{
	"equal": {files: files{
		"ARCHITECTURE.md": "## The tree\n```\napi/\n  v1/  types\nkit/   tools\n```\n",
		"api/v1/a.go":     "package v1", "kit/x/x.go": "package x", "kit/x/y/y.go": "package y",
	}},
	"missing document": {want: []string{"ARCHITECTURE.md: missing"}},
	"no tree in it": {
		files: files{"ARCHITECTURE.md": "## The tree\nsoon\n"},
		want:  []string{`ARCHITECTURE.md: has no tree: a code block below the heading "## The tree"`},
	},
	"drawn but not there": {
		files: files{"ARCHITECTURE.md": "## The tree\n```\nkit/\nmoon/  far\n```\n", "kit/x/x.go": "package x"},
		want:  []string{"ARCHITECTURE.md: draws moon/, which does not exist"},
	},
	"there but not drawn": {
		files: files{
			"ARCHITECTURE.md":    "## The tree\n```\ninternal/\n  arch/\n```\n",
			"internal/arch/a.go": "package arch", "internal/wire/w.go": "package wire", "docs/a.md": "",
		},
		want: []string{"ARCHITECTURE.md: does not draw docs/", "ARCHITECTURE.md: does not draw internal/wire/"},
	},
	"one line for two levels": {
		files: files{
			"ARCHITECTURE.md": drawing, "api/v1/a.go": "package v1", "api/v2/a.go": "package v2",
			"internal/arch/a.go": "package a", "kit/k": "",
		},
		want: []string{"ARCHITECTURE.md: does not draw api/v2/"},
	},
}

var folderCases = map[string]ruleCase{
	"filled": {files: files{"a/b/c.txt": ""}},
	"empty": {
		files: files{"a/b/": "", "a/c/d.txt": ""},
		want:  []string{"a/b: is empty: remove it until something lives there"},
	},
}

var importCases = map[string]ruleCase{
	"allowed": {files: files{
		"api/v1/a.go":               "package v1\nimport (\n\"fmt\"\n\"k8s.io/apimachinery/pkg/runtime\"\n)",
		"api/v1/a_test.go":          "package v1\nimport \"sigs.k8s.io/yaml\"",
		"kit/x/x.go":                "package x\nimport \"meridian.dev/meridian/kit/names\"",
		"internal/cache/act/a.go":   "package act\nimport \"meridian.dev/meridian/internal/cache\"",
		"internal/cache/cache.go":   "package cache\nimport \"meridian.dev/meridian/internal/wire\"",
		"internal/cachefoo/a.go":    "package cachefoo\nimport \"meridian.dev/meridian/internal/redis\"",
		"internal/database/plan.go": "package database\nimport \"meridian.dev/meridian/kit/names\"",
	}},
	"api with a client": {
		files: files{"api/v1/a.go": "package v1\nimport \"k8s.io/client-go/rest\""},
		want: []string{"api/v1/a.go:2: may import only k8s.io/apimachinery, meridian.dev/meridian/api, not " +
			"k8s.io/client-go/rest: who imports our types must not get our dependencies"},
	},
	"kit test with internal": {
		files: files{"kit/x/x_test.go": "package x\nimport \"meridian.dev/meridian/internal/wire\""},
		want: []string{"kit/x/x_test.go:2: may not import meridian.dev/meridian/internal/wire: " +
			"kit serves any operator, and nobody outside can build internal"},
	},
	"loop with loop": {
		files: files{"internal/postgres/server/s.go": "package server\nimport \"meridian.dev/meridian/internal/database\""},
		want: []string{"internal/postgres/server/s.go:2: may not import meridian.dev/meridian/internal/database: " +
			"loops never import each other; they meet in wire"},
	},
	"tenure with an engine": {
		files: files{"internal/tenure/t.go": "package tenure\nimport \"meridian.dev/meridian/internal/redis\""},
		want: []string{"internal/tenure/t.go:2: may not import meridian.dev/meridian/internal/redis: " +
			"loops never import each other; they meet in wire"},
	},
	"a loop with flags": {
		files: files{"internal/redis/r.go": "package redis\nimport \"flag\""},
		want: []string{"internal/redis/r.go:2: may not import flag: " +
			"what a loop is told comes from cmd or from the assembly of its process"},
	},
	"stage with stage": {
		files: files{"internal/cache/plan/p.go": "package plan\nimport \"meridian.dev/meridian/internal/cache/act\""},
		want: []string{"internal/cache/plan/p.go:2: may not import meridian.dev/meridian/internal/cache/act: " +
			"a stage knows its input and its output; only controller knows all stages"},
	},
	"product with sandbox": {
		files: files{"internal/operator/o.go": "package operator\nimport \"meridian.dev/meridian/sandbox/faults\""},
		want: []string{"internal/operator/o.go:2: may not import meridian.dev/meridian/sandbox/faults: " +
			"the product does not contain its tests"},
	},
}

var moduleCases = map[string]ruleCase{
	"light":   {files: files{"go.mod": "module m\nrequire (\n\tk8s.io/api v0.1.0\n\tk8s.io/kubernetes-x v1.0.0\n)\n"}},
	"missing": {want: []string{"go.mod: missing"}},
	"heavy": {
		files: files{"go.mod": "module m\n\nrequire k8s.io/kubernetes v1.0.0\n"},
		want:  []string{"go.mod:3: k8s.io/kubernetes belongs into a module of its own (sandbox or hack/tools)"},
	},
}

const (
	unsortedMap = "the order of a map is random: range over slices.Sorted(maps.Keys(m))"
	planFile    = "internal/database/plan/p.go"
)

var purityCases = map[string]ruleCase{
	"pure": {files: files{
		planFile: "package plan\nimport (\n\"net/url\"\n\"time\"\n)\n" +
			"func f(s []int, at time.Time) {\n\tm := map[int]int{}\n\tfor range s {\n\t\tm[1] = len(url.Values{})\n\t}\n}",
		"internal/database/plan/p_test.go": "package plan\nimport \"os\"\nvar _ = os.Args",
		"internal/database/act/a.go":       "package act\nimport \"context\"\nvar _ context.Context",
	}},
	"imports": {
		files: files{planFile: "package plan\nimport \"context\"\nimport \"net/http\"\nimport \"os/exec\""},
		want: []string{
			planFile + ":2: pure code may not import context: nothing here could be cancelled",
			planFile + ":3: pure code may not import net/http: pure code talks to nobody",
			planFile + ":4: pure code may not import os/exec: pure code sees only its arguments",
		},
	},
	"clock under another name": {
		files: files{planFile: "package plan\nimport clock \"time\"\nvar t = clock.Now()"},
		want:  []string{planFile + ":3: pure code has no clock (time.Now): take the time from the snapshot"},
	},
	"goroutine": {
		files: files{planFile: "package plan\nfunc f() {\n\tgo f()\n}"},
		want:  []string{planFile + ":3: pure code starts no goroutine"},
	},
	"maps by literal, variable, parameter and field": {
		files: files{
			planFile: "package plan\ntype s struct{ Labels map[string]string }\n" +
				"func f(p map[int]int, x s) {\n\tv := make(map[int]int)\n" +
				"\tfor range map[int]int{} {\n\t}\n\tfor range p {\n\t}\n\tfor range v {\n\t}\n\tfor range x.Labels {\n\t}\n}",
		},
		want: []string{
			planFile + ":11: " + unsortedMap, planFile + ":5: " + unsortedMap,
			planFile + ":7: " + unsortedMap, planFile + ":9: " + unsortedMap,
		},
	},
	"a name that is a map only sometimes": {files: files{
		planFile: "package plan\ntype a struct{ Items map[int]int }\ntype b struct{ Items []int }\n" +
			"func f(x b) {\n\tfor range x.Items {\n\t}\n}",
	}},
	"listed but not there": {
		files: files{"go.mod": "module m\n"},
		want:  missingPure(),
	},
}

var recordCases = map[string]ruleCase{
	"sorted": {files: files{
		"CHANGELOG.md":    "# Changelog\n\n## Unreleased\n### Added\n### Security\n## 0.1\n### Added\n### Fixed\n",
		"docs/adr/1-a.md": "# 1. A\n\nStatus: accepted. It replaces nothing.\n",
		"docs/adr/2-b.md": "# 2. B\n\nStatus: replaced by [ADR 1](1-a.md).\n",
		"docs/b.md":       "# B\n",
	}},
	"unsorted": {
		files: files{
			"CHANGELOG.md":    "## Unreleased\n### Fixed\n### Added\n### Fixed\n### Miscellaneous\n",
			"docs/adr/1-a.md": "# 1. A\n\n## Decision\n",
			"docs/adr/2-b.md": "# 2. B",
		},
		want: []string{
			`CHANGELOG.md:3: section "Added": only Added, Changed, Fixed, Security, once each and in this order`,
			`CHANGELOG.md:4: section "Fixed": only Added, Changed, Fixed, Security, once each and in this order`,
			`CHANGELOG.md:5: section "Miscellaneous": only Added, Changed, Fixed, Security, once each and in this order`,
			"docs/adr/1-a.md: " + statusMissing,
			"docs/adr/2-b.md: " + statusMissing,
		},
	},
}

const statusMissing = `the third line must say the status: "Status: accepted." or "Status: replaced by [ADR n](page)."`

var docCases = map[string]ruleCase{
	"documented": {files: files{
		"kit/a/doc.go": "// Package a is.\npackage a", "kit/a/b.go": "package a",
		"cmd/x/main.go": "// Command x does.\npackage main",
		"test/e2e/e.go": "//go:build cluster\n\n// Package e2e tests.\npackage e2e",
	}},
	"missing": {
		files: files{"kit/a/a.go": "// Package b is.\npackage a", "cmd/x/main.go": "// main\n\npackage main"},
		want: []string{
			"cmd/x: has no package comment: say what it is, what it may not do, where to start reading",
			"kit/a: has no package comment: say what it is, what it may not do, where to start reading",
		},
	},
}

var exampleCases = map[string]ruleCase{
	"shown": {files: files{
		"kit/a/a.go": "package a", "kit/a/example_test.go": "package a_test\nfunc Example() {}",
		"kit/a/internal/b/b.go": "package b", "internal/arch/a.go": "package arch",
	}},
	"missing or hollow": {
		files: files{"kit/a/a.go": "package a", "kit/b/example_test.go": "package b"},
		want: []string{
			"kit/a: has no example_test.go with an Example function",
			"kit/b: has no example_test.go with an Example function",
		},
	},
}

var nameCases = map[string]ruleCase{
	"clear": {files: files{
		"kit/a/failover.go":           "package a\nfunc fenceSecondPrimary() {}\nfunc Handle() {}\nfunc processed() {}",
		"kit/a/zz_generated.types.go": "// Code generated by x. DO NOT EDIT.\n\npackage a\nfunc ensureX() {}",
		"kit/a/prototypes.go":         "package a",
	}},
	"vague files and packages": {
		files: files{
			"kit/util/x.go":             "package util",
			"api/v1/types.go":           "package v1",
			"kit/a/pod_helpers_test.go": "package a",
		},
		want: []string{
			`api/v1/types.go: a file named "types" says nothing: name it by what it does`,
			`kit/a/pod_helpers_test.go: a file named "helpers" says nothing: name it by what it does`,
			`kit/util: a package named "util" says nothing: name it by its noun`,
			`kit/util/x.go: a package named "util" says nothing: name it by its noun`,
		},
	},
	"vague functions": {
		files: files{"kit/a/a.go": "package a\nfunc ensurePod() {}\nfunc (t T) HandleEvent() {}\ntype T struct{}"},
		want: []string{
			"kit/a/a.go:2: function ensurePod: say what it does, in the imperative",
			"kit/a/a.go:3: function HandleEvent: say what it does, in the imperative",
		},
	},
}

var sizeCases = map[string]ruleCase{
	"just fits": {files: files{
		"Makefile":     strings.Repeat("#\n", 150),
		"a/b/c/d/e.go": "package d\nfunc f(a, b, c, d, e int) {\n" + strings.Repeat("\n", 68) + "}\n",
		"api/v1/a.go":  "package v1\n// +kubebuilder:" + strings.Repeat("x", 200) + strings.Repeat("\n", 797),
		"kit/a/wide.go": "package a\n//" + strings.Repeat("ä", 118) + "\n" +
			strings.Repeat("\n", 497) + "//",
		"kit/b/zz_generated.go": "// Code generated by x. DO NOT EDIT.\n\npackage b" + strings.Repeat("\n", 900) + "//",
		"kit/b/b_test.go":       "package b\nfunc TestX() {\n" + strings.Repeat("\n", 100) + "}",
	}},
	"too long": {
		files: files{
			"Makefile":    strings.Repeat("#\n", 151),
			"kit/a/a.go":  "package a\nfunc f() {\n" + strings.Repeat("\n", 69) + "}\n",
			"kit/b/b.go":  "package b" + strings.Repeat("\n", 500) + "//",
			"api/v1/a.go": "package v1" + strings.Repeat("\n", 800) + "//",
			"kit/c/c.go":  "package c\n//" + strings.Repeat("x", 119),
		},
		want: []string{
			"Makefile: has 151 lines, at most 150",
			"api/v1/a.go: has 801 lines, at most 800",
			"kit/a/a.go:2: function f has 71 lines, at most 70",
			"kit/b/b.go: has 501 lines, at most 500",
			"kit/c/c.go:2: is 121 characters wide, at most 120",
		},
	},
	"as large as may be": {files: linesIn("a/b/c/d/e", 2500)},
	"too large and too deep": {
		files: linesIn("a/b/c/d/e/f", 2501),
		want: []string{
			"a/b/c/d/e/f: has 2501 lines, at most 2500: split it by topic",
			"a/b/c/d/e/f: lies 6 folders deep, at most 5",
		},
	},
	"what was too large before": {files: linesIn("kit/sim", 3250)},
	"it grows": {
		files: linesIn("kit/sim", 3251),
		want:  []string{"kit/sim: has 3251 lines, at most 3250, and is to shrink: split it by topic"},
	},
	"it has shrunk": {
		files: linesIn("kit/sim", 2949),
		want:  []string{"kit/sim: has 2949 lines: lower its allowance of 3250"},
	},
	"it has been split": {
		files: linesIn("kit/sim", 2500),
		want:  []string{"kit/sim: has 2500 lines and needs no allowance any more: remove it"},
	},
	"too many parameters": {
		files: files{"kit/a/a.go": "package a\nfunc f(a, b, c int, d, e, g string) {\n}"},
		want:  []string{"kit/a/a.go:2: 6 parameters, at most 5: what belongs together is a struct"},
	},
}

// linesIn is a package of so many lines, beside tests and generated files that do not count.
func linesIn(folder string, count int) files {
	content := files{
		folder + "/x_test.go":       "package e" + strings.Repeat("\n//", 100),
		folder + "/zz_generated.go": "// Code generated by x. DO NOT EDIT.\n\npackage e" + strings.Repeat("\n//", 100),
	}
	for part := 0; count > 0; part++ {
		lines := min(count, 500)
		content[folder+"/"+string(rune('a'+part))+".go"] = "package e" + strings.Repeat("\n//", lines-1)
		count -= lines
	}
	return content
}

// missingPure is what an empty tree with a go.mod gets: one line for each kit package of the table.
func missingPure() []string {
	const missing = ": listed as pure, but there is no such package"
	return []string{
		"kit/condition" + missing, "kit/names" + missing, "kit/quorum" + missing, "kit/rule" + missing,
		"kit/window" + missing,
	}
}
