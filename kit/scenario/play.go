package scenario

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// wantFolder is where a scenario keeps what must come out.
const wantFolder = "want/"

// Result is what the play of one scenario has shown.
type Result struct {
	// Problems are mistakes in the scenario or in the function: nothing that an
	// update could repair.
	Problems []string
	// Differences are what came out otherwise than wanted, one text per file.
	Differences []string
	// Updated is the scenario with what came out in the place of what was wanted.
	// It is nil when there are problems.
	Updated []byte
}

// Passed reports whether the scenario went as it is written.
func (r Result) Passed() bool { return len(r.Problems) == 0 && len(r.Differences) == 0 }

// Play plays the scenario that is written in the archive: it gives the files to
// the function, and compares what comes out. It reads and writes nothing else.
// The function is called twice and must be pure.
func Play(archive []byte, function func(in Files) (out Files)) Result {
	parsed := txtar.Parse(archive)
	given, wanted, problems := sortOut(parsed)
	if len(problems) > 0 {
		return Result{Problems: problems}
	}
	out, problems := playTwice(given, function)
	if len(problems) > 0 {
		return Result{Problems: problems}
	}
	return Result{
		Differences: compare(wanted, out.text),
		Updated:     txtar.Format(update(parsed, out)),
	}
}

// sortOut tells what is given from what is wanted, and finds what is wrong with
// the scenario before it is played.
func sortOut(archive *txtar.Archive) (given, wanted map[string]string, problems []string) {
	given, wanted = map[string]string{}, map[string]string{}
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		problems = append(problems, "the scenario has no story: say above the first file what happens")
	}
	for _, file := range archive.Files {
		name, into := file.Name, given
		if isWant(name) {
			name, into = strings.TrimPrefix(name, wantFolder), wanted
		}
		if _, twice := into[name]; twice {
			problems = append(problems, fmt.Sprintf("the file %s is there twice", file.Name))
		}
		into[name] = string(file.Data)
	}
	return given, wanted, problems
}

func isWant(name string) bool { return strings.HasPrefix(name, wantFolder) }

// playTwice plays on fresh files each time, so that the function cannot learn
// from its first call, and returns what came out when both times agree.
func playTwice(given map[string]string, function func(Files) Files) (Files, []string) {
	out, problems := playOnce(given, function)
	if len(problems) > 0 {
		return Files{}, problems
	}
	again, problems := playOnce(given, function)
	if len(problems) > 0 {
		return Files{}, []string{"the second play of the same files failed: " + strings.Join(problems, "; ")}
	}
	if diff := cmp.Diff(out.text, again.text); diff != "" {
		return Files{}, []string{"two plays of the same files differ (-first +second):\n" + diff}
	}
	return out, nil
}

func playOnce(given map[string]string, function func(Files) Files) (out Files, problems []string) {
	in := Files{text: given, read: map[string]bool{}}
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case refusal:
			out, problems = Files{}, []string{reason.err.Error()}
		default:
			panic(reason)
		}
	}()
	out = function(in)
	if out.broken != nil {
		problems = append(problems, out.broken.Error())
	}
	for _, name := range in.Names() {
		if !in.read[name] {
			problems = append(problems, fmt.Sprintf("the given file %s is never read", name))
		}
	}
	if len(out.text) == 0 {
		problems = append(problems, "nothing came out: a scenario that shows nothing is not valid")
	}
	for _, name := range out.Names() {
		if why := unstorable(name, out.text[name]); why != "" {
			problems = append(problems, fmt.Sprintf("the resulting file %q cannot be kept in a scenario: %s", name, why))
		}
	}
	return out, problems
}

// unstorable says why a file would not come back from an archive as it went in,
// or returns nothing when it would.
func unstorable(name, text string) string {
	archive := &txtar.Archive{Files: []txtar.File{{Name: name, Data: []byte(text)}}}
	back := txtar.Parse(txtar.Format(archive))
	switch {
	case len(back.Files) > 1:
		return "a line of it looks like the beginning of another file"
	case len(back.Files) == 0 || back.Files[0].Name != name:
		return "the name is not valid"
	case string(back.Files[0].Data) != text:
		return "the text is not valid"
	}
	return ""
}

// compare returns one text for each file that is missing, unknown or different.
func compare(wanted, got map[string]string) []string {
	var differences []string
	for _, name := range (Files{text: wanted}).Names() {
		text, produced := got[name]
		if !produced {
			differences = append(differences, fmt.Sprintf("%s%s is wanted, but did not come out", wantFolder, name))
		} else if diff := cmp.Diff(wanted[name], text); diff != "" {
			differences = append(differences, fmt.Sprintf("%s%s differs (-want +got):\n%s", wantFolder, name, diff))
		}
	}
	for _, name := range (Files{text: got}).Names() {
		if _, known := wanted[name]; !known {
			differences = append(differences,
				fmt.Sprintf("%s%s came out, but is not in the scenario:\n%s", wantFolder, name, got[name]))
		}
	}
	return differences
}

// update returns the archive with what came out in place of what was wanted. The
// files that stay keep their places; new ones follow at the end, sorted.
func update(archive *txtar.Archive, out Files) *txtar.Archive {
	updated := &txtar.Archive{Comment: archive.Comment}
	placed := map[string]bool{}
	for _, file := range archive.Files {
		if isWant(file.Name) {
			name := strings.TrimPrefix(file.Name, wantFolder)
			if !out.Has(name) {
				continue
			}
			file.Data = []byte(out.text[name])
			placed[name] = true
		}
		updated.Files = append(updated.Files, file)
	}
	added := slices.DeleteFunc(out.Names(), func(name string) bool { return placed[name] })
	for _, name := range added {
		updated.Files = append(updated.Files, txtar.File{Name: wantFolder + name, Data: []byte(out.text[name])})
	}
	return updated
}
