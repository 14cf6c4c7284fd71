package arch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	// citedPath is a path of this repository in a comment. Placeholders such as <Reason> end it.
	citedPath = regexp.MustCompile(
		`(?:^|[^\w./-])((?:api|cmd|deploy|docs|hack|images|internal|kit|sandbox|test)/[\w./-]*\w)`)
	citedDecision = regexp.MustCompile(`\bADR (\d+)`)
)

// checkCitations finds comments that name a page, a file or a decision that does not exist.
func checkCitations(repo *Repo) []Finding {
	exists, decisions := map[string]bool{}, map[string]bool{}
	for _, folder := range repo.Folders {
		exists[folder.Path] = true
	}
	for _, file := range repo.Files {
		exists[file.Path] = true
		if name, found := strings.CutPrefix(file.Path, "docs/adr/"); found {
			number, _, _ := strings.Cut(name, "-")
			decisions[number] = true
		}
	}
	var findings []Finding
	for _, pkg := range repo.Packages {
		for _, file := range pkg.Files {
			for _, group := range file.Syntax.Comments {
				for _, comment := range group.List {
					for _, cited := range citations(comment.Text, exists, decisions) {
						findings = append(findings, finding(repo.at(comment.Pos()), "the comment cites %s, which does not exist", cited))
					}
				}
			}
		}
	}
	return sorted(findings)
}

// citations are what a comment cites in vain.
func citations(text string, exists, decisions map[string]bool) []string {
	var missing []string
	text = strings.TrimPrefix(text, "//")
	for _, match := range citedPath.FindAllStringSubmatch(text, -1) {
		if !exists[match[1]] {
			missing = append(missing, match[1])
		}
	}
	for _, match := range citedDecision.FindAllStringSubmatch(text, -1) {
		number, err := strconv.Atoi(match[1])
		if err != nil || !decisions[fmt.Sprintf("%04d", number)] {
			missing = append(missing, match[0])
		}
	}
	return missing
}
