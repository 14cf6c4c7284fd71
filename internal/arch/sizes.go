package arch

import (
	"go/ast"
	"strings"
	"unicode/utf8"
)

// allowances are the packages that were larger than MaxPackageLines when that limit came, and how large each may be
// until it is split by topic. An entry only shrinks: one that a package no longer needs, or that leaves it more room
// than allowanceRoom, is refused, so that what was won is not lost again. No entry is ever added.
var allowances = map[string]int{
	"kit/sim":        3250,
	"test/sim":       5500,
	"test/sim/lives": 4400,
}

// allowanceRoom lets a package that awaits its split take in a mended rule, and no new topic.
const allowanceRoom = 300

func checkSizes(repo *Repo) []Finding {
	findings := checkMakefile(repo)
	for _, pkg := range repo.Packages {
		if depth := strings.Count(pkg.Folder, "/") + 1; depth > MaxFolderDepth {
			findings = append(findings, finding(pkg.Folder, "lies %d folders deep, at most %d", depth, MaxFolderDepth))
		}
		findings = append(findings, packageSize(pkg)...)
		for _, file := range pkg.Files {
			if !file.Generated {
				findings = append(findings, fileSizes(repo, file)...)
			}
		}
	}
	return sorted(findings)
}

// packageSize counts the lines that people wrote and that end in a binary.
func packageSize(pkg Package) []Finding {
	var count int
	for _, file := range pkg.sources() {
		count += len(file.Lines)
	}
	limit, allowed := allowances[pkg.Folder]
	switch {
	case !allowed && count > MaxPackageLines:
		return []Finding{finding(pkg.Folder, "has %d lines, at most %d: split it by topic", count, MaxPackageLines)}
	case !allowed:
		return nil
	case count > limit:
		return []Finding{finding(pkg.Folder, "has %d lines, at most %d, and is to shrink: split it by topic", count, limit)}
	case count <= MaxPackageLines:
		return []Finding{finding(pkg.Folder, "has %d lines and needs no allowance any more: remove it", count)}
	case limit-count > allowanceRoom:
		return []Finding{finding(pkg.Folder, "has %d lines: lower its allowance of %d", count, limit)}
	}
	return nil
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
