package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/arch"
	databasestatus "meridian.dev/meridian/internal/database/status"
	"meridian.dev/meridian/kit/condition"
)

const runbook = "docs/runbook"

// TestRunbook holds the pages of the runbook against the reasons that the code can show: each has a page, and no page
// is left over from a reason that is gone.
func TestRunbook(t *testing.T) {
	repo, err := arch.Load(os.DirFS(repositoryRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	reasons := shownReasons(repo)
	// The search knows syntax only. What a catalogue says at run time shows whether it still finds what it looks for.
	for _, entry := range databasestatus.Reasons.Entries() {
		if reasons[entry.Reason] == "" {
			t.Errorf("the reason %s is in a catalogue, and was not found in the source: the search is too narrow", entry.Reason)
		}
	}
	for _, problem := range compareRunbook(reasons, pages(repo)) {
		t.Error(problem)
	}
	for _, file := range repo.Files {
		if path.Dir(file.Path) == runbook {
			checkPage(t, file)
		}
	}
}

// TestRunbookBites shows that a page that is missing and one that is left over are found.
func TestRunbookBites(t *testing.T) {
	reasons := map[condition.Reason]string{"Here": "a.go:1", "Missing": "b.go:2"}
	got := compareRunbook(reasons, []string{"Here", "LeftOver"})
	if len(got) != 2 || !strings.Contains(got[0], "Missing.md") || !strings.Contains(got[0], "b.go:2") ||
		!strings.Contains(got[1], "LeftOver.md") {
		t.Errorf("found %q", got)
	}
}

func compareRunbook(reasons map[condition.Reason]string, pages []string) []string {
	var entries []condition.Entry
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		entries = append(entries, condition.Entry{Reason: reason, Means: reasons[reason]})
	}
	catalogue, err := condition.NewCatalogue(entries...)
	if err != nil {
		return []string{err.Error()}
	}
	missing, surplus := catalogue.Compare(pages)
	var problems []string
	for _, reason := range missing {
		problems = append(problems, fmt.Sprintf("%s/%s.md is missing: the reason is in %s",
			runbook, reason, reasons[reason]))
	}
	for _, page := range surplus {
		problems = append(problems, fmt.Sprintf("%s/%s.md is left over: no code has that reason", runbook, page))
	}
	return problems
}

// pages are the names of the pages without their ending; README is no reason.
func pages(repo *arch.Repo) []string {
	var names []string
	for _, file := range repo.Files {
		name, found := strings.CutSuffix(path.Base(file.Path), ".md")
		if path.Dir(file.Path) == runbook && found && name != "README" {
			names = append(names, name)
		}
	}
	return names
}

// checkPage demands the four questions that a page answers.
func checkPage(t *testing.T, file arch.File) {
	t.Helper()
	name, _ := strings.CutSuffix(path.Base(file.Path), ".md")
	if name == "README" {
		return
	}
	last := 0
	for _, heading := range []string{
		"# " + name + "\n", "\n## How to see it\n", "\n## What Meridian does by itself\n", "\n## What you do\n",
	} {
		at := strings.Index(string(file.Content), heading)
		if at < last || at < 0 {
			t.Errorf("%s has no %q where it belongs", file.Path, strings.TrimSpace(heading))
		}
		last = at
	}
}

// shownReasons finds every word below internal that can become the reason of a condition, with the file that has it:
// the entries of catalogues, the constants of a type Reason, and the names of holds.
func shownReasons(repo *arch.Repo) map[condition.Reason]string {
	found := map[condition.Reason]string{}
	for _, pkg := range repo.Packages {
		for _, file := range pkg.Files {
			if file.Test || !strings.HasPrefix(file.Path, "internal/") {
				continue
			}
			ast.Inspect(file.Syntax, func(node ast.Node) bool {
				for _, literal := range reasonsIn(node) {
					if text, err := strconv.Unquote(literal.Value); err == nil && found[condition.Reason(text)] == "" {
						found[condition.Reason(text)] = file.Path
					}
				}
				return true
			})
		}
	}
	return found
}

func reasonsIn(node ast.Node) []*ast.BasicLit {
	switch node := node.(type) {
	case *ast.ValueSpec: // const reasonX condition.Reason = "X"
		if named(node.Type, "Reason") || named(node.Type, "BackupReason") {
			return texts(node.Values)
		}
	case *ast.CompositeLit: // condition.Entry{Reason: "X"}
		for _, element := range node.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if ok && named(node.Type, "Entry") && named(pair.Key, "Reason") {
				return texts([]ast.Expr{pair.Value})
			}
		}
	case *ast.CallExpr: // d.hold(weight, recheck, "X", message)
		if method, ok := node.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "hold" && len(node.Args) == 4 {
			return texts(node.Args[2:3])
		}
	}
	return nil
}

// named tells whether an expression is that name, of this package or of another.
func named(expression ast.Expr, name string) bool {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name == name
	case *ast.SelectorExpr:
		return expression.Sel.Name == name
	default:
		return false
	}
}

func texts(expressions []ast.Expr) []*ast.BasicLit {
	var found []*ast.BasicLit
	for _, expression := range expressions {
		if literal, ok := expression.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			found = append(found, literal)
		}
	}
	return found
}
