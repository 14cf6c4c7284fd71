// Package docs carries the pages of the runbook into programs, so that whoever is on call can read them where the alarm
// is. The pages themselves are the files beside it.
package docs

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed runbook/*.md runbook/alerts/*.md
var runbook embed.FS

// Reasons are those of conditions and holds that have a page, sorted.
func Reasons() []string { return names("runbook") }

// Alerts are those that have a page, sorted.
func Alerts() []string { return names("runbook/alerts") }

func names(folder string) []string {
	entries, err := runbook.ReadDir(folder)
	if err != nil {
		return nil // The folder is part of the program.
	}
	var found []string
	for _, entry := range entries {
		if name, isPage := strings.CutSuffix(entry.Name(), ".md"); isPage && name != "README" {
			found = append(found, name)
		}
	}
	return found
}

// Page is the page of a reason or of an alert.
func Page(name string) (string, error) {
	for _, folder := range []string{"runbook/", "runbook/alerts/"} {
		if content, err := runbook.ReadFile(folder + name + ".md"); err == nil {
			return string(content), nil
		}
	}
	return "", fmt.Errorf("the runbook has no page %q", name)
}
