package arch

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// vagueNames fit everything, so they gather everything.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "types", "manager", "misc"}

// vagueVerbs say that something happens, not what.
var vagueVerbs = regexp.MustCompile(`^(ensure|maybe|handle|process|Ensure|Maybe|Handle|Process)[A-Z]`)

func checkNames(repo *Repo) []Finding {
	var findings []Finding
	for _, pkg := range repo.Packages {
		if base := path.Base(pkg.Folder); slices.Contains(vagueNames, base) {
			findings = append(findings, finding(pkg.Folder, "a package named %q says nothing: name it by its noun", base))
		}
		for _, file := range pkg.Files {
			if !file.Generated {
				findings = append(findings, vagueFile(file)...)
				findings = append(findings, vagueFunctions(repo, file)...)
			}
		}
	}
	return sorted(findings)
}

func vagueFile(file GoFile) []Finding {
	var findings []Finding
	stem := strings.TrimSuffix(path.Base(file.Path), ".go")
	for part := range strings.SplitSeq(stem, "_") {
		if slices.Contains(vagueNames, part) {
			findings = append(findings, finding(file.Path, "a file named %q says nothing: name it by what it does", part))
		}
	}
	name := strings.TrimSuffix(file.Syntax.Name.Name, "_test")
	if slices.Contains(vagueNames, name) {
		findings = append(findings, finding(file.Path, "a package named %q says nothing: name it by its noun", name))
	}
	return findings
}

func vagueFunctions(repo *Repo, file GoFile) []Finding {
	var findings []Finding
	for _, declaration := range file.Syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && vagueVerbs.MatchString(function.Name.Name) {
			findings = append(findings, finding(repo.at(function.Pos()),
				"function %s: say what it does, in the imperative", function.Name.Name))
		}
	}
	return findings
}

func checkDocs(repo *Repo) []Finding {
	var findings []Finding
	for _, pkg := range repo.Packages {
		if !slices.ContainsFunc(pkg.Files, documents) {
			findings = append(findings, finding(pkg.Folder,
				"has no package comment: say what it is, what it may not do, where to start reading"))
		}
	}
	return findings
}

// documents tells whether a file carries the package comment in the form that go doc expects.
func documents(file GoFile) bool {
	name := strings.TrimSuffix(file.Syntax.Name.Name, "_test")
	text := file.Syntax.Doc.Text()
	if name == "main" {
		return strings.HasPrefix(text, "Command ")
	}
	return strings.HasPrefix(text, "Package "+name+" ") || strings.HasPrefix(text, "Package "+name+"_test ")
}

func checkExamples(repo *Repo) []Finding {
	var findings []Finding
	for _, pkg := range repo.Packages {
		// Folders below a kit package serve it alone; those named internal cannot be imported from outside.
		if strings.Count(pkg.Folder, "/") != 1 || !within(pkg.Folder, "kit") {
			continue
		}
		if !slices.ContainsFunc(pkg.Files, isExample) {
			findings = append(findings, finding(pkg.Folder, "has no example_test.go with an Example function"))
		}
	}
	return findings
}

func isExample(file GoFile) bool {
	return path.Base(file.Path) == "example_test.go" &&
		slices.ContainsFunc(file.Syntax.Decls, func(declaration ast.Decl) bool {
			function, ok := declaration.(*ast.FuncDecl)
			return ok && strings.HasPrefix(function.Name.Name, "Example")
		})
}
