package admit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// units are those of PostgreSQL, in bytes and in microseconds. Their names are case-sensitive there, and so here.
var (
	memoryUnits = map[string]float64{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
	timeUnits   = map[string]float64{"us": 1, "ms": 1e3, "s": 1e6, "min": 60e6, "h": 3600e6, "d": 86400e6}
)

const (
	memoryNames = "B, kB, MB, GB or TB"
	timeNames   = "us, ms, s, min, h or d"
)

// judge says why the server would refuse a value for the parameter, or nothing if it would take it.
func (p Parameter) judge(value string) string {
	switch p.Type {
	case "bool":
		if _, ok := parseBool(value); !ok {
			return fmt.Sprintf("%q is neither on nor off", value)
		}
	case "enum":
		same := func(choice string) bool { return strings.EqualFold(choice, value) }
		if !slices.ContainsFunc(p.Choices, same) {
			return fmt.Sprintf("%q is not one of %s", value, strings.Join(p.Choices, ", "))
		}
	case "integer", "real":
		_, why := p.number(value)
		return why
	}
	return ""
}

// number returns the value in the unit of the parameter, or why the server would refuse it.
func (p Parameter) number(value string) (float64, string) {
	text := strings.Trim(value, blanks)
	digits, unit := splitNumber(text)
	amount, ok := parseNumber(digits, p.Type == "real")
	if !ok {
		return 0, fmt.Sprintf("%q is not a number%s", value, p.example())
	}
	factor, why := p.factor(strings.Trim(unit, blanks))
	if why != "" {
		return 0, why
	}
	amount *= factor
	if p.Type == "integer" {
		amount = math.RoundToEven(amount)
	}
	low, high := parseLimit(p.Min, math.Inf(-1)), parseLimit(p.Max, math.Inf(1))
	if math.IsNaN(amount) || amount < low || amount > high {
		return 0, fmt.Sprintf("%q is outside of the range from %s to %s%s", value, p.Min, p.Max, p.countedIn())
	}
	return amount, ""
}

// blanks is what PostgreSQL skips around numbers; control characters are refused before.
const blanks = " \t\n\r\v\f"

const decimals = "0123456789"

func (p Parameter) countedIn() string {
	if p.Unit == "" {
		return ""
	}
	return ", counted in " + p.Unit
}

func (p Parameter) example() string {
	switch {
	case p.Unit == "":
		return ""
	case p.isTime():
		return ", optionally followed by " + timeNames
	}
	return ", optionally followed by " + memoryNames
}

func (p Parameter) isTime() bool { _, found := timeUnits[p.Unit]; return found }

// factor is what an amount in the given unit has to be multiplied with to be counted in the unit of the parameter.
func (p Parameter) factor(unit string) (float64, string) {
	switch {
	case unit == "":
		return 1, ""
	case p.Unit == "":
		return 0, fmt.Sprintf("takes no unit, but has %q", unit)
	}
	known, names, base := memoryUnits, memoryNames, p.Unit
	if p.isTime() {
		known, names = timeUnits, timeNames
	}
	scale, found := known[unit]
	if !found {
		return 0, fmt.Sprintf("has the unit %q; it must be one of %s, written with these capitals", unit, names)
	}
	// The unit of the parameter may have a multiple in front, as in 8kB.
	multiple := 1.0
	if bare := strings.TrimLeft(base, decimals); bare != base {
		multiple = parseLimit(strings.TrimSuffix(base, bare), 1)
		base = bare
	}
	return scale / (multiple * known[base]), ""
}

// splitNumber cuts off the unit: everything from the first letter that cannot belong to a number.
func splitNumber(text string) (number, unit string) {
	if hasHexPrefix(text) {
		unit = strings.TrimLeft(text[2:], decimals+"abcdefABCDEF")
		return strings.TrimSuffix(text, unit), unit
	}
	end := len(text) - len(strings.TrimLeft(text, decimals+"+-."))
	// An exponent belongs to the number only if digits follow, so that "1 e" stays a wrong unit.
	if end < len(text) && (text[end] == 'e' || text[end] == 'E') {
		rest := text[end+1:]
		signed := strings.TrimLeft(rest, "+-")
		digits := len(signed) - len(strings.TrimLeft(signed, decimals))
		if len(rest)-len(signed) <= 1 && digits > 0 {
			end += 1 + len(rest) - len(signed) + digits
		}
	}
	return text[:end], text[end:]
}

func hasHexPrefix(text string) bool {
	return strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X")
}

// parseNumber reads what C's strtol with base 0 reads, so that a leading 0 means octal, or else what strtod reads.
func parseNumber(digits string, decimal bool) (float64, bool) {
	if digits == "" {
		return 0, false
	}
	if hasHexPrefix(digits) || !decimal && !strings.ContainsAny(digits, ".eE") {
		whole, err := strconv.ParseInt(octal(digits), 0, 64)
		return float64(whole), err == nil
	}
	amount, err := strconv.ParseFloat(digits, 64)
	return amount, err == nil
}

// octal writes a leading 0 in the way that Go demands for it.
func octal(digits string) string {
	sign := digits[:len(digits)-len(strings.TrimLeft(digits, "+-"))]
	rest := digits[len(sign):]
	if len(rest) > 1 && rest[0] == '0' && !hasHexPrefix(rest) {
		return sign + "0o" + rest[1:]
	}
	return digits
}

func parseLimit(text string, otherwise float64) float64 {
	limit, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return otherwise
	}
	return limit
}

// parseBool reads what PostgreSQL takes for a truth value: on, off, true, false, yes, no, 1, 0, and beginnings of these
// words that are not ambiguous.
func parseBool(value string) (result, ok bool) {
	text := strings.ToLower(value)
	if text == "" {
		return false, false
	}
	switch {
	case text == "1", strings.HasPrefix("true", text), strings.HasPrefix("yes", text), text == "on":
		return true, true
	case text == "0", strings.HasPrefix("false", text), strings.HasPrefix("no", text), text == "of", text == "off":
		return false, true
	}
	return false, false
}
