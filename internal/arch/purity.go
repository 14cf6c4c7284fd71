package arch

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
)

// purePackages lists the folders whose code is a function of its arguments. A star stands for one part. A kit package
// that is named here must exist: the table may not promise purity that nobody checks.
var purePackages = []string{
	"internal/*/change",
	"internal/*/plan",
	"internal/*/render",
	"internal/*/invariant",
	"internal/*/design",
	"internal/tenure/ballot",
	"internal/tenure/cache",
	"internal/tenure/draft",
	"internal/tenure/follow",
	"internal/tenure/isolation",
	"internal/tenure/lead",
	"internal/tenure/lease",
	"internal/tenure/lost",
	"internal/tenure/promise",
	"internal/tenure/route",
	"internal/tenure/succession",
	"internal/*/status",
	"internal/admit",
	"kit/condition",
	"kit/names",
	"kit/quorum",
	"kit/rule",
	"kit/window",
}

// impureImports is what pure code has no use for, with the reason.
var impureImports = map[string]string{
	"context":                        "nothing here could be cancelled",
	"os":                             "pure code sees only its arguments",
	"net":                            "pure code talks to nobody",
	"sync":                           "pure code has no state to share",
	"math/rand":                      "the same input gives the same output",
	"crypto/rand":                    "the same input gives the same output",
	"github.com/go-logr/logr":        "a decision explains itself in its result",
	"log":                            "a decision explains itself in its result",
	"k8s.io/client-go":               "pure code reads and writes nothing",
	"sigs.k8s.io/controller-runtime": "pure code reads and writes nothing",
}

// pureNet are the parts of net that only parse text.
var pureNet = []string{"net/netip", "net/url"}

// clockCalls are the functions of package time that ask the clock or wait for it.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func checkPurity(repo *Repo) []Finding {
	var findings []Finding
	maps := mapFields(repo)
	for _, pkg := range repo.Packages {
		if !slices.ContainsFunc(purePackages, func(pattern string) bool { return matches(pkg.Folder, pattern) }) {
			continue
		}
		names := mapNames(pkg)
		for _, file := range pkg.sources() {
			findings = append(findings, impureImportsOf(repo, file)...)
			inspector := purity{repo: repo, clock: importName(file, "time"), fields: maps, names: names}
			findings = append(findings, inspector.look(file)...)
		}
	}
	return sorted(append(findings, missingPurePackages(repo)...))
}

// missingPurePackages looks at the kit entries only: a loop may come into being stage by stage.
func missingPurePackages(repo *Repo) []Finding {
	if _, whole := repo.file("go.mod"); !whole {
		return nil
	}
	var findings []Finding
	for _, pattern := range purePackages {
		exists := func(pkg Package) bool { return matches(pkg.Folder, pattern) }
		if within(pattern, "kit") && !slices.ContainsFunc(repo.Packages, exists) {
			findings = append(findings, finding(pattern, "listed as pure, but there is no such package"))
		}
	}
	return findings
}

func impureImportsOf(repo *Repo, file GoFile) []Finding {
	var findings []Finding
	for _, spec := range file.Syntax.Imports {
		name := importPath(spec)
		if slices.Contains(pureNet, name) {
			continue
		}
		for banned, why := range impureImports {
			if within(name, banned) {
				findings = append(findings, finding(repo.at(spec.Pos()), "pure code may not import %s: %s", name, why))
			}
		}
	}
	return findings
}

// importName is the name under which a file knows a package, or "" if it does not import it.
func importName(file GoFile, wanted string) string {
	for _, spec := range file.Syntax.Imports {
		if importPath(spec) != wanted {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(wanted)
	}
	return ""
}

// purity looks for deeds that no import gives away. It knows syntax, not types: it finds a map by the way its name was
// declared in this repository. A map that comes out of a foreign function is left to review.
type purity struct {
	repo   *Repo
	clock  string
	fields map[string]bool // names of struct fields that are maps wherever they are declared
	names  map[string]bool // names of variables and parameters that are maps wherever the package declares them
}

func (p purity) look(file GoFile) []Finding {
	var findings []Finding
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			findings = append(findings, finding(p.repo.at(node.Pos()), "pure code starts no goroutine"))
		case *ast.SelectorExpr:
			pkg, ok := node.X.(*ast.Ident)
			if ok && p.clock != "" && pkg.Name == p.clock && slices.Contains(clockCalls, node.Sel.Name) {
				findings = append(findings, finding(p.repo.at(node.Pos()),
					"pure code has no clock (time.%s): take the time from the snapshot", node.Sel.Name))
			}
		case *ast.RangeStmt:
			if p.isMap(node.X) {
				findings = append(findings, finding(p.repo.at(node.Pos()),
					"the order of a map is random: range over slices.Sorted(maps.Keys(m))"))
			}
		}
		return true
	})
	return findings
}

func (p purity) isMap(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return p.isMap(expr.X)
	case *ast.CompositeLit:
		return isMapType(expr.Type)
	case *ast.Ident:
		return p.names[expr.Name]
	case *ast.SelectorExpr:
		return p.fields[expr.Sel.Name]
	}
	return false
}

func isMapType(expr ast.Expr) bool {
	_, ok := expr.(*ast.MapType)
	return ok
}

// mapFields collects the struct fields of the repository that are always maps. A name that is a map in one struct and
// a slice in another says nothing, so it is left out.
func mapFields(repo *Repo) map[string]bool {
	votes := ballot{}
	for _, pkg := range repo.Packages {
		for _, file := range pkg.Files {
			ast.Inspect(file.Syntax, func(node ast.Node) bool {
				if structure, ok := node.(*ast.StructType); ok {
					votes.fields(structure.Fields)
				}
				return true
			})
		}
	}
	return votes.unanimous()
}

// mapNames collects the variables and parameters of one package that are always maps.
func mapNames(pkg Package) map[string]bool {
	votes := ballot{}
	for _, file := range pkg.sources() {
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncType:
				votes.fields(node.Params)
				votes.fields(node.Results)
			case *ast.ValueSpec:
				votes.values(node)
			case *ast.AssignStmt:
				if node.Tok == token.DEFINE {
					votes.definition(node)
				}
			}
			return true
		})
	}
	return votes.unanimous()
}

// ballot counts, by name, declarations as a map and as anything else.
type ballot map[string]struct{ maps, others int }

func (b ballot) cast(name string, isMap bool) {
	count := b[name]
	if isMap {
		count.maps++
	} else {
		count.others++
	}
	b[name] = count
}

func (b ballot) fields(list *ast.FieldList) {
	if list == nil {
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			b.cast(name.Name, isMapType(field.Type))
		}
	}
}

func (b ballot) values(spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		isMap := isMapType(spec.Type)
		if i < len(spec.Values) {
			isMap = isMap || makesMap(spec.Values[i])
		}
		b.cast(name.Name, isMap)
	}
}

func (b ballot) definition(assign *ast.AssignStmt) {
	for i, left := range assign.Lhs {
		if name, ok := left.(*ast.Ident); ok {
			b.cast(name.Name, len(assign.Lhs) == len(assign.Rhs) && makesMap(assign.Rhs[i]))
		}
	}
}

// makesMap tells a map literal and make(map[…]…).
func makesMap(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.CompositeLit:
		return isMapType(expr.Type)
	case *ast.CallExpr:
		called, ok := expr.Fun.(*ast.Ident)
		return ok && called.Name == "make" && len(expr.Args) > 0 && isMapType(expr.Args[0])
	}
	return false
}

func (b ballot) unanimous() map[string]bool {
	names := map[string]bool{}
	for name, count := range b {
		if count.maps > 0 && count.others == 0 {
			names[name] = true
		}
	}
	return names
}

// line is the place of a line in a file.
func line(file string, index int) string { return file + ":" + strconv.Itoa(index+1) }
