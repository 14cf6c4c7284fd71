package image

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// MirrorVariable is the environment variable that names a Debian mirror where the machine's own apt does not tell.
const MirrorVariable = "MERIDIAN_DEBIAN_MIRROR"

// errNoMirror is the one message for every way in which no mirror is found.
var errNoMirror = errors.New("no Debian mirror known: set " + MirrorVariable +
	" to the address of one, and install the packages " + strings.Join(DebianPackages, " "))

// keyrings are the places where Debian's keys lie, newest first.
var keyrings = []string{
	"usr/share/keyrings/debian-archive-keyring.pgp",
	"usr/share/keyrings/debian-archive-keyring.gpg",
}

// source is one entry of apt's configuration.
type source struct {
	uris, suites, components []string
	signedBy                 string // path of a keyring, empty if the entry names none
	trusted                  bool   // the machine's owner has switched off signatures for it
}

// sourcesFor returns one-line apt sources for a suite: the machine's own sources of Debian with the name of the release
// replaced, or the given mirror. The root is the machine's file system.
func sourcesFor(root fs.FS, suite, mirror string) ([]string, error) {
	keyring := ""
	for _, file := range keyrings {
		if _, err := fs.Stat(root, file); err == nil {
			keyring = "/" + file
			break
		}
	}
	if mirror != "" {
		return []string{
			sourceLine(source{signedBy: keyring}, mirror, suite),
			sourceLine(source{signedBy: keyring}, mirror, suite+"-updates"),
		}, nil
	}
	release, err := hostRelease(root)
	if err != nil {
		return nil, err
	}
	entries, err := readSources(root)
	if err != nil {
		return nil, err
	}
	found := translate(entries, release, suite, keyring)
	if !slices.ContainsFunc(found, func(line string) bool { return strings.HasSuffix(line, " "+suite+" main") }) {
		return nil, fmt.Errorf("apt has no source for %s main: %w", release, errNoMirror)
	}
	return found, nil
}

// translate turns the entries for the machine's release into lines for another suite. Backports and the like are not
// taken over: images hold a release and its updates.
func translate(entries []source, release, suite, keyring string) []string {
	var found []string
	for _, entry := range entries {
		if !slices.Contains(entry.components, "main") {
			continue
		}
		if entry.signedBy == "" {
			entry.signedBy = keyring
		}
		for _, uri := range entry.uris {
			for _, have := range entry.suites {
				base, pocket, _ := strings.Cut(have, "-")
				if base != release && base != "stable" || !slices.Contains([]string{"", "updates", "security"}, pocket) {
					continue
				}
				line := sourceLine(entry, uri, strings.TrimSuffix(suite+"-"+pocket, "-"))
				if !slices.Contains(found, line) {
					found = append(found, line)
				}
			}
		}
	}
	return found
}

func sourceLine(entry source, uri, suite string) string {
	var options []string
	if entry.signedBy != "" {
		options = append(options, "signed-by="+entry.signedBy)
	}
	if entry.trusted {
		options = append(options, "trusted=yes")
	}
	if len(options) == 0 {
		return fmt.Sprintf("deb %s %s main", uri, suite)
	}
	return fmt.Sprintf("deb [%s] %s %s main", strings.Join(options, " "), uri, suite)
}

// hostRelease returns the code name of the Debian release the machine runs.
func hostRelease(root fs.FS) (string, error) {
	content, err := fs.ReadFile(root, "etc/os-release")
	if err != nil {
		return "", fmt.Errorf("this machine does not say what it runs: %w", errNoMirror)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = strings.Trim(value, `"'`)
	}
	if values["ID"] != "debian" || values["VERSION_CODENAME"] == "" {
		return "", fmt.Errorf("this machine runs %q, not a Debian release: %w", values["ID"], errNoMirror)
	}
	return values["VERSION_CODENAME"], nil
}

// readSources reads every file that apt itself would read, in both of its forms.
func readSources(root fs.FS) ([]source, error) {
	files := []string{"etc/apt/sources.list"}
	for _, pattern := range []string{"etc/apt/sources.list.d/*.list", "etc/apt/sources.list.d/*.sources"} {
		more, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, fmt.Errorf("list apt sources: %w", err)
		}
		files = append(files, more...)
	}
	var all []source
	for _, file := range files {
		content, err := fs.ReadFile(root, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt sources: %w", err)
		}
		if path.Ext(file) == ".sources" {
			all = append(all, parseStanzas(content)...)
		} else {
			all = append(all, parseOneLine(content)...)
		}
	}
	return all, nil
}

// parseOneLine reads the form `deb [key=value …] URI suite component…`.
func parseOneLine(content []byte) []source {
	var all []source
	for _, line := range lines(content) {
		rest, isBinary := strings.CutPrefix(line, "deb ")
		if !isBinary {
			continue
		}
		var entry source
		if options, after, bracketed := strings.Cut(strings.TrimSpace(rest), "]"); bracketed {
			for _, option := range strings.Fields(strings.TrimPrefix(options, "[")) {
				key, value, _ := strings.Cut(option, "=")
				entry.set(key, value)
			}
			rest = after
		}
		if fields := strings.Fields(rest); len(fields) > 2 {
			entry.uris, entry.suites, entry.components = fields[:1], fields[1:2], fields[2:]
			all = append(all, entry)
		}
	}
	return all
}

// parseStanzas reads the form of fields and values, with a blank line between two entries.
func parseStanzas(content []byte) []source {
	var all []source
	fields := map[string]string{}
	finish := func() {
		isBinary := slices.Contains(strings.Fields(fields["types"]), "deb")
		if isBinary && !strings.EqualFold(strings.TrimSpace(fields["enabled"]), "no") {
			entry := source{
				uris:       strings.Fields(fields["uris"]),
				suites:     strings.Fields(fields["suites"]),
				components: strings.Fields(fields["components"]),
			}
			entry.set("signed-by", strings.TrimSpace(fields["signed-by"]))
			entry.set("trusted", strings.TrimSpace(fields["trusted"]))
			all = append(all, entry)
		}
		clear(fields)
	}
	last := ""
	for scan := bufio.NewScanner(bytes.NewReader(content)); scan.Scan(); {
		line := scan.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			finish()
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + line
		default:
			key, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(strings.TrimSpace(key))
			fields[last] = value
		}
	}
	finish()
	return all
}

// set takes an option over. A key that is a fingerprint or written out in the entry is left to Debian's own keyring.
func (s *source) set(key, value string) {
	switch key {
	case "signed-by":
		if strings.HasPrefix(value, "/") {
			s.signedBy = value
		}
	case "trusted":
		s.trusted = value == "yes"
	}
}
