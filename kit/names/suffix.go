package names

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

const (
	// suffixLength letters of suffixAlphabet carry 57 bits. Neither may ever
	// change: every name that was cut would change with it.
	suffixLength = 12

	// suffixAlphabet has no vowels, so that no suffix is a word, and none of the
	// digits that are easily taken for a letter.
	suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// suffix computes the suffix of a list of parts. Each part is hashed with its
// length before it, so that no two different lists feed the hash the same bytes.
func suffix(parts []string) string {
	var text []byte
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	number := binary.BigEndian.Uint64(sum[:8])
	out := make([]byte, suffixLength)
	for i := range out {
		out[i] = suffixAlphabet[number%uint64(len(suffixAlphabet))]
		number /= uint64(len(suffixAlphabet))
	}
	return string(out)
}

// endsLikeSuffix reports whether text could be a name that this package has
// suffixed: it ends in a separator and twelve characters of the alphabet.
func endsLikeSuffix(text string) bool {
	start := len(text) - suffixLength
	if start < 1 || text[start-1] != Separator[0] {
		return false
	}
	return strings.Trim(text[start:], suffixAlphabet) == ""
}
