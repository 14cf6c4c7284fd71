package backup

import (
	"fmt"

	"meridian.dev/meridian/internal/postgres"
)

// LSN is a place in the log. In JSON it is written as PostgreSQL writes it.
type LSN uint64

func (l LSN) String() string { return postgres.FormatLSN(uint64(l)) }

// MarshalText implements encoding.TextMarshaler.
func (l LSN) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *LSN) UnmarshalText(text []byte) error {
	value, err := postgres.ParseLSN(string(text))
	*l = LSN(value)
	return err
}

// SegmentName is the name of PostgreSQL's file for a segment of the log.
func SegmentName(timeline int, number, size uint64) string {
	each := uint64(1<<32) / size
	return fmt.Sprintf("%08X%08X%08X", timeline, number/each, number%each)
}

// ParseSegment reads what SegmentName writes.
func ParseSegment(name string, size uint64) (timeline int, number uint64, ok bool) {
	var parts [3]uint64
	if len(name) != 24 {
		return 0, 0, false
	}
	for index := range parts {
		value, valid := parseHex(name[index*8 : index*8+8])
		if !valid {
			return 0, 0, false
		}
		parts[index] = value
	}
	each := uint64(1<<32) / size
	if parts[0] == 0 || parts[2] >= each {
		return 0, 0, false
	}
	return int(parts[0]), parts[1]*each + parts[2], true
}

// parseHex reads eight upper-case digits: another spelling is another name.
func parseHex(text string) (uint64, bool) {
	if len(text) != 8 {
		return 0, false
	}
	var value uint64
	for _, digit := range []byte(text) {
		switch {
		case digit >= '0' && digit <= '9':
			value = value<<4 | uint64(digit-'0')
		case digit >= 'A' && digit <= 'F':
			value = value<<4 | uint64(digit-'A'+10)
		default:
			return 0, false
		}
	}
	return value, true
}
