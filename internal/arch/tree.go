package arch

import (
	"path"
	"slices"
	"strings"
)

const (
	treeFile    = "ARCHITECTURE.md"
	treeHeading = "## The tree"
)

// checkTree compares the tree on disk with the drawn one. A drawn folder must exist. A folder that is drawn with
// sub-folders must be drawn with all of them that hold Go code; one that is drawn without covers what lies below it.
// At the top every folder is drawn.
func checkTree(repo *Repo) []Finding {
	content, found := repo.file(treeFile)
	if !found {
		return []Finding{finding(treeFile, "missing")}
	}
	drawn := drawnFolders(splitLines(content))
	if len(drawn) == 0 {
		return []Finding{finding(treeFile, "has no tree: a code block below the heading %q", treeHeading)}
	}
	var findings []Finding
	for _, folder := range drawn {
		if !slices.ContainsFunc(repo.Folders, func(f Folder) bool { return f.Path == folder }) {
			findings = append(findings, finding(treeFile, "draws %s/, which does not exist", folder))
		}
	}
	for _, folder := range repo.Folders {
		if !strings.Contains(folder.Path, "/") && !slices.Contains(drawn, folder.Path) {
			findings = append(findings, finding(treeFile, "does not draw %s/", folder.Path))
		}
	}
	for _, pkg := range repo.Packages {
		if strings.Contains(pkg.Folder, "/") && !covered(pkg.Folder, drawn) {
			findings = append(findings, finding(treeFile, "does not draw %s/", pkg.Folder))
		}
	}
	return sorted(findings)
}

// covered tells whether a folder is drawn, or lies below a folder that is drawn without sub-folders.
func covered(folder string, drawn []string) bool {
	if slices.Contains(drawn, folder) {
		return true
	}
	for dir := path.Dir(folder); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(drawn, dir) {
			return !slices.ContainsFunc(drawn, func(other string) bool { return other != dir && within(other, dir) })
		}
	}
	// The top folder is missing from the drawing, which has a finding of its own.
	return !slices.Contains(drawn, strings.SplitN(folder, "/", 2)[0])
}

// drawnFolders reads the first code block below the heading: two spaces of indent for each level, then the folder with
// a slash at its end, then a remark. Lines that name a file are for people only.
func drawnFolders(lines []string) []string {
	var drawn, trail []string
	for _, text := range firstBlock(lines) {
		fields := strings.Fields(text)
		if len(fields) == 0 || !strings.HasSuffix(fields[0], "/") {
			continue
		}
		level := (len(text) - len(strings.TrimLeft(text, " "))) / 2
		if level > len(trail) {
			level = len(trail)
		}
		trail = append(trail[:level:level], strings.TrimSuffix(fields[0], "/"))
		// A line such as api/v1alpha1/ draws api too.
		var folder string
		for part := range strings.SplitSeq(strings.Join(trail, "/"), "/") {
			if folder = path.Join(folder, part); !slices.Contains(drawn, folder) {
				drawn = append(drawn, folder)
			}
		}
	}
	return drawn
}

func firstBlock(lines []string) []string {
	start := slices.Index(lines, treeHeading)
	if start < 0 {
		return nil
	}
	var block []string
	inside := false
	for _, text := range lines[start:] {
		switch {
		case strings.HasPrefix(text, "```") && inside:
			return block
		case strings.HasPrefix(text, "```"):
			inside = true
		case inside:
			block = append(block, text)
		}
	}
	return nil
}

func checkFolders(repo *Repo) []Finding {
	var findings []Finding
	for _, folder := range repo.Folders {
		if folder.Empty {
			findings = append(findings, finding(folder.Path, "is empty: remove it until something lives there"))
		}
	}
	return findings
}
