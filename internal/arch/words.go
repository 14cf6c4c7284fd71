package arch

import (
	"bytes"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ForbidWords makes a rule that no file may contain any of the words. It is for facts of the machine that the test
// learns when it runs: the hosts it gets packages from and the folders it works in.
func ForbidWords(words []string) Rule {
	return Rule{
		Name: "words",
		Why:  "a project that names a mirror or a folder of one machine does not build on another",
		Check: func(repo *Repo) []Finding {
			var findings []Finding
			for _, file := range repo.Files {
				findings = append(findings, wordsIn(file, words)...)
			}
			return sorted(findings)
		},
	}
}

func wordsIn(file File, words []string) []Finding {
	// A file with a zero byte is not text.
	if bytes.IndexByte(file.Content, 0) >= 0 {
		return nil
	}
	var findings []Finding
	for index, text := range splitLines(file.Content) {
		for _, word := range words {
			if containsWord(text, word) {
				findings = append(findings, finding(line(file.Path, index), "names %q, which belongs to one machine", word))
			}
		}
	}
	return findings
}

// containsWord wants an edge on both sides, so that example.org is not found in myexample.organic.
func containsWord(text, word string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		start := from + at
		end := start + len(word)
		if !wordByte(text, start-1) && !wordByte(text, end) {
			return true
		}
		from = end
	}
}

func wordByte(text string, index int) bool {
	if index < 0 || index >= len(text) {
		return false
	}
	b := text[index]
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_'
}

var addresses = regexp.MustCompile(`https?://[^\s"',|\]]+`)

// HostsIn finds the hosts of the web addresses in a setting, such as the value of GOPROXY or a list of package sources.
// Lines that start with # are remarks. Names without a dot and numeric addresses are left out: they name no registry.
func HostsIn(text string) []string {
	var hosts []string
	for setting := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(setting), "#") {
			continue
		}
		for _, address := range addresses.FindAllString(setting, -1) {
			parsed, err := url.Parse(address)
			if err != nil || !strings.Contains(parsed.Hostname(), ".") || numeric(parsed.Hostname()) {
				continue
			}
			hosts = append(hosts, parsed.Hostname())
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func numeric(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
