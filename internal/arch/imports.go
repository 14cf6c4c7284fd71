package arch

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// importRule bans imports for the packages below a folder pattern.
type importRule struct {
	from  string   // folder pattern; a star stands for one part
	only  []string // if set: beside the standard library, nothing but these and what lies below them
	never []string // never these, nor what lies below them
	tests bool     // whether the rule binds test files too
	why   string
}

const (
	internal = Module + "/internal"
	meetWire = "loops never import each other; they meet in wire"
	stageWhy = "a stage knows its input and its output; only controller knows all stages"

	testOnlyWhy = "the product does not contain its tests"
)

var testOnly = []string{Module + "/test", Module + "/sandbox"}

// loop is a control loop below internal.
type loop struct {
	name string
	// obeys says that it makes a server what the loop of tenure tells it, and so imports that.
	obeys bool
}

var loops = []loop{
	{"database", false}, {"cache", false}, {"tenure", false}, {"postgres", true}, {"redis", true},
}

// importRules is the table behind "Who may import whom" in ARCHITECTURE.md.
var importRules = append(loopRules(), []importRule{
	{
		from: "api", only: []string{"k8s.io/apimachinery", Module + "/api"},
		why: "who imports our types must not get our dependencies",
	},
	{
		from: "kit", never: []string{Module + "/api", internal, Module + "/cmd", Module + "/sandbox", Module + "/test"},
		tests: true, why: "kit serves any operator, and nobody outside can build internal",
	},
	{from: "cmd", never: testOnly, why: testOnlyWhy},
	{from: "internal", never: testOnly, why: testOnlyWhy},
	{from: "sandbox", never: []string{internal, Module + "/cmd"}, why: "the sandbox is a module of its own"},
}...)

// loopRules keep every loop from every other one, and from flags.
func loopRules() []importRule {
	var rules []importRule
	for _, one := range loops {
		apart := importRule{from: "internal/" + one.name, tests: true, why: meetWire}
		for _, other := range loops {
			if other != one && !(one.obeys && other.name == "tenure") {
				apart.never = append(apart.never, internal+"/"+other.name)
			}
		}
		rules = append(rules, apart, importRule{
			from: "internal/" + one.name, never: []string{"flag", "github.com/spf13/pflag"},
			why: "what a loop is told comes from cmd or from the assembly of its process",
		})
	}
	return rules
}

// stageBans says, for each stage of a loop, which other stages of the same loop it may not import.
var stageBans = map[string][]string{
	"observe":   {"plan", "invariant", "act", "status", "controller"},
	"design":    {"observe", "plan", "invariant", "act", "status", "controller"},
	"plan":      {"observe", "invariant", "act", "status", "controller"},
	"invariant": {"observe", "plan", "act", "status", "controller"},
	"render":    {"observe", "design", "plan", "invariant", "act", "status", "controller"},
	"act":       {"observe", "plan", "invariant", "status", "controller"},
	"status":    {"observe", "plan", "invariant", "act", "controller"},
}

func checkImports(repo *Repo) []Finding {
	var findings []Finding
	for _, pkg := range repo.Packages {
		for _, rule := range rulesFor(pkg.Folder) {
			for _, file := range pkg.Files {
				if file.Test && !rule.tests {
					continue
				}
				findings = append(findings, rule.breaches(repo, file)...)
			}
		}
	}
	return sorted(findings)
}

func rulesFor(folder string) []importRule {
	var rules []importRule
	for _, rule := range importRules {
		if matches(folder, rule.from) {
			rules = append(rules, rule)
		}
	}
	parts := strings.Split(folder, "/")
	if len(parts) < 3 || parts[0] != "internal" {
		return rules
	}
	for _, other := range stageBans[parts[2]] {
		rules = append(rules, importRule{never: []string{internal + "/" + parts[1] + "/" + other}, why: stageWhy})
	}
	return rules
}

func (rule importRule) breaches(repo *Repo, file GoFile) []Finding {
	var findings []Finding
	for _, spec := range file.Syntax.Imports {
		name := importPath(spec)
		if slices.ContainsFunc(rule.never, func(folder string) bool { return within(name, folder) }) {
			findings = append(findings, finding(repo.at(spec.Pos()), "may not import %s: %s", name, rule.why))
		}
		allowed := func(folder string) bool { return within(name, folder) }
		if rule.only != nil && !standard(name) && !slices.ContainsFunc(rule.only, allowed) {
			findings = append(findings, finding(repo.at(spec.Pos()), "may import only %s, not %s: %s",
				strings.Join(rule.only, ", "), name, rule.why))
		}
	}
	return findings
}

func importPath(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return name
}

// standard tells a package of the standard library: its first part has no dot.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// heavyModules are those whose place is the sandbox's go.mod, or the tools'.
var heavyModules = []string{
	"k8s.io/kubernetes ",
	"github.com/containerd/containerd/",
	"go.etcd.io/etcd/server/",
	"github.com/coredns/coredns ",
	"github.com/golangci/golangci-lint/",
	"sigs.k8s.io/controller-tools ",
	Module + "/sandbox ",
}

func checkModules(repo *Repo) []Finding {
	content, found := repo.file("go.mod")
	if !found {
		return []Finding{finding("go.mod", "missing")}
	}
	var findings []Finding
	for number, line := range splitLines(content) {
		for _, heavy := range heavyModules {
			if strings.Contains(line+" ", heavy) {
				findings = append(findings, finding("go.mod:"+strconv.Itoa(number+1),
					"%s belongs into a module of its own (sandbox or hack/tools)", strings.TrimRight(heavy, " /")))
			}
		}
	}
	return findings
}
