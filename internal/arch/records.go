package arch

import (
	"regexp"
	"slices"
	"strings"
)

// changeSections are the headings below a version in CHANGELOG.md, in their order.
var changeSections = []string{"Added", "Changed", "Fixed", "Security"}

// decisionStatus is what the third line of a decision record begins with. A record that was replaced says by which one.
var decisionStatus = regexp.MustCompile(`^Status: (accepted\.|replaced by \[ADR \d+\]\()`)

// checkRecords looks at the two kinds of documents that people append to: the changelog and the decision records.
func checkRecords(repo *Repo) []Finding {
	var findings []Finding
	for _, file := range repo.Files {
		lines := splitLines(file.Content)
		switch {
		case file.Path == "CHANGELOG.md":
			findings = append(findings, checkSections(file.Path, lines)...)
		case within(file.Path, "docs/adr") && (len(lines) < 3 || !decisionStatus.MatchString(lines[2])):
			findings = append(findings, finding(file.Path, `the third line must say the status: "Status: accepted." or `+
				`"Status: replaced by [ADR n](page)."`))
		}
	}
	return sorted(findings)
}

func checkSections(name string, lines []string) []Finding {
	var findings []Finding
	last := -1
	for index, text := range lines {
		if strings.HasPrefix(text, "## ") {
			last = -1
		}
		heading, isSection := strings.CutPrefix(text, "### ")
		if !isSection {
			continue
		}
		place := slices.Index(changeSections, heading)
		if place <= last {
			findings = append(findings, finding(line(name, index), "section %q: only %s, once each and in this order",
				heading, strings.Join(changeSections, ", ")))
		}
		last = max(last, place)
	}
	return findings
}
