package redact

import (
	"regexp"
	"slices"
	"strings"
)

// word is what stands in the place of what was taken out.
const word = "REDACTED"

// telling are the words that end the names of what nobody else shall see.
const telling = `(?:password|passwd|passphrase|pgpass|pwd|secret|token|credentials?|api[-_]?key|access[-_]?key|` +
	`secret[-_]?key|private[-_]?key|encryption[-_]?key|requirepass|masterauth|primaryauth|authorization|cookie)s?`

// The forms in which a value can follow its name. Inside of a line of JSON that is itself quoted, quotes are escaped.
const (
	escapedValue = `\\"(?:[^"\\]|\\[^"\\]|\\\\\\"|\\\\\\\\)*\\?"?`
	doubleValue  = `"(?:[^"\\]|\\.)*"?`
	singleValue  = `'(?:[^'\\\n]|\\.|'')*'?`
	blockValue   = `[|>][+-]?[0-9]?[ \t]*\n(?:[ \t]+[^\n]*(?:\n|$)|[ \t]*\n)+`
	quotedValue  = escapedValue + `|` + doubleValue + `|` + singleValue
)

// keyWords are on the first and on the last line of a private key.
const keyWords = `[A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`

// rule finds a secret in a text; of what it finds the first group stays.
type rule struct {
	find *regexp.Regexp
	put  string
}

// rules go from what is sure to what only looks like a secret. A value after an equals sign ends with the word, one
// after a colon with the line: too much taken out does less harm than too little.
var rules = []rule{
	{regexp.MustCompile(`(?s)-----BEGIN ` + keyWords + `.*?(?:-----END ` + keyWords + `|\z)`), word},
	{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s"]*@`), "${1}" + word + "@"},
	{regexp.MustCompile(`(?i)(password\s+(?:=\s*)?)(?:E?'(?:[^'\n]|'')*'?|\$\w*\$[^\n]*?\$\w*\$)`), "${1}'" + word + "'"},
	{regexp.MustCompile(`(?i)(\bsetuser\s)[^\n]*`), "${1}" + word},
	{regexp.MustCompile(`(\bAUTH[ \t]+)[^\s"]+(?:[ \t]+[^\s"]+)?`), "${1}" + word},
	{regexp.MustCompile(`(?i)(\b(?:requirepass|masterauth|primaryauth)[ \t]+)[^\s:=]\S*`), "${1}" + word},
	{regexp.MustCompile(`(?i)(--?[a-z0-9-]*` + telling + `[ \t]+)(?:` + quotedValue + `|[^\s:=]\S*)`), "${1}" + word},
	{regexp.MustCompile(`(?i)(\bbearer[ \t]+)[A-Za-z0-9._~+/=-]{8,}`), "${1}" + word},
	{regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*`), word},
	{regexp.MustCompile(`()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), word},
	{regexp.MustCompile(`()SCRAM-SHA-256\$[^\s"']+`), word},
	{regexp.MustCompile(`()\bmd5[0-9a-f]{32}\b`), word},
	// What PostgreSQL says about the data of an application.
	{regexp.MustCompile(`(?i)(\bparameters: )\$1 = [^\n]*`), "${1}" + word},
	{regexp.MustCompile(`(\bKey \([^)\n]*\)=)\([^\n]*\)`), "${1}(" + word + ")"},
}

// named is a name that ends like that of a secret, and its value.
var named = regexp.MustCompile(`(?i)([a-z0-9_.-]*` + telling + `(?:\\*["'])?[ \t]*)` +
	`(=[ \t]*(?:` + quotedValue + `|\S+)|:[ \t]*(?:` + blockValue + `|` + quotedValue + `|[^\s"'][^\n]*))`)

// harmless are values that tell nothing, whatever they are called.
var harmless = []string{"true", "false", "null", "{}", "[]", `""`, word}

// Text takes out of any text what is a secret, or looks like one.
func Text(text string) string {
	for _, one := range rules {
		text = one.find.ReplaceAllString(text, one.put)
	}
	return named.ReplaceAllStringFunc(text, func(found string) string {
		parts := named.FindStringSubmatch(found)
		sign, value := parts[2][:1], strings.TrimSpace(parts[2][1:])
		if slices.Contains(harmless, strings.TrimRight(value, ",;")) {
			return found
		}
		space := ""
		if sign == ":" && strings.HasPrefix(parts[2], ": ") {
			space = " "
		}
		return parts[1] + sign + space + quoteLike(value) + lineEnd(value, parts[2])
	})
}

// quoteLike keeps the quotes of a value, so that a line of JSON stays one.
func quoteLike(value string) string {
	for _, quote := range []string{`\"`, `"`, `'`} {
		if strings.HasPrefix(value, quote) {
			return quote + word + quote
		}
	}
	return word
}

// lineEnd keeps the end of the last line of a block.
func lineEnd(value, matched string) string {
	if strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") {
		if strings.HasSuffix(matched, "\n") {
			return "\n"
		}
	}
	return ""
}
