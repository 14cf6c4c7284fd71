package arch

import (
	"go/ast"
	"strings"
	"unicode/utf8"
)

func checkSizes(repo *Repo) []Finding {
	findings := checkMakefile(repo)
	for _, pkg := range repo.Packages {
		if depth := strings.Count(pkg.Folder, "/") + 1; depth > MaxFolderDepth {
			findings = append(findings, finding(pkg.Folder, "lies %d folders deep, at most %d", depth, MaxFolderDepth))
		}
		if count := len(pkg.sources()); count > MaxPackageFiles {
			findings = append(findings, finding(pkg.Folder,
				"has %d files, at most %d: split it by noun", count, MaxPackageFiles))
		}
		for _, file := range pkg.Files {
			if !file.Generated {
				findings = append(findings, fileSizes(repo, file)...)
			}
		}
	}
	return sorted(findings)
}

func checkMakefile(repo *Repo) []Finding {
	content, found := repo.file("Makefile")
	if count := len(splitLines(content)); found && count > MaxMakefileLines {
		return []Finding{finding("Makefile", "has %d lines, at most %d", count, MaxMakefileLines)}
	}
	return nil
}

func fileSizes(repo *Repo, file GoFile) []Finding {
	var findings []Finding
	limit := MaxFileLines
	if file.Test || within(file.Path, "api") {
		limit = MaxListFileLines
	}
	if count := len(file.Lines); count > limit {
		findings = append(findings, finding(file.Path, "has %d lines, at most %d", count, limit))
	}
	for index, text := range file.Lines {
		// A marker of the code generator cannot be broken into lines.
		if strings.HasPrefix(strings.TrimSpace(text), "// +kubebuilder:") {
			continue
		}
		if width := utf8.RuneCountInString(text); width > MaxLineWidth {
			findings = append(findings, finding(line(file.Path, index),
				"is %d characters wide, at most %d", width, MaxLineWidth))
		}
	}
	return append(findings, functionSizes(repo, file)...)
}

func functionSizes(repo *Repo, file GoFile) []Finding {
	var findings []Finding
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			count := repo.lineOf(node.End()) - repo.lineOf(node.Pos()) + 1
			// A test reads better as one story than as ten helpers: the limit of its file is enough.
			if count > MaxFunctionLines && !file.Test {
				findings = append(findings, finding(repo.at(node.Pos()),
					"function %s has %d lines, at most %d", node.Name.Name, count, MaxFunctionLines))
			}
		case *ast.FuncType:
			if count := node.Params.NumFields(); count > MaxParameters {
				findings = append(findings, finding(repo.at(node.Pos()),
					"%d parameters, at most %d: what belongs together is a struct", count, MaxParameters))
			}
		}
		return true
	})
	return findings
}
