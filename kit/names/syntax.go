package names

import "strings"

// allows reports whether text is a valid name of this form as it stands.
func (f Form) allows(text string) bool {
	if text == "" {
		return f.blankOK
	}
	if len(text) > f.limit || f.letter && !isLetter(text[0]) {
		return false
	}
	return f.clean(text) == text && strings.Trim(text, f.inner) == text
}

// clean replaces what the form does not allow by hyphens, and upper-case letters
// by lower-case ones where it demands that. The result has only allowed
// characters, and no dot that would begin or end a part badly, but its ends are
// still as they were. Text that is allowed comes back unchanged.
func (f Form) clean(text string) string {
	cleaned := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			if f.upper {
				return r
			}
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', strings.ContainsRune(f.inner, r):
			return r
		}
		return '-'
	}, text)
	if !f.dotted {
		return cleaned
	}
	return cleanDots(cleaned)
}

// cleanDots turns every dot that does not stand between two letters or digits
// into a hyphen. A dot looks at its neighbours as they were given, so that the
// result does not depend on the order in which dots are visited.
func cleanDots(text string) string {
	out := []byte(text)
	for i, c := range []byte(text) {
		if c != '.' {
			continue
		}
		if i == 0 || i == len(text)-1 || !isAlphanumeric(text[i-1]) || !isAlphanumeric(text[i+1]) {
			out[i] = '-'
		}
	}
	return string(out)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isAlphanumeric(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' }
