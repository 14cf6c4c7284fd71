package server

import (
	"bytes"
	"strconv"
	"strings"
)

// LogLine is one line of PostgreSQL's log. The log goes to standard error with the prefix of package render: the
// server's own JSON format needs its logging collector, which writes files and would outgrow the volume.
type LogLine struct {
	// Continued says that the line belongs to the one before.
	Continued bool
	// Time is seconds since 1970 with a fraction, empty for a line without prefix.
	Time string
	PID  int
	// Severity is PostgreSQL's, such as LOG, ERROR, DETAIL; empty for a line without prefix.
	Severity                              string
	SQLState, User, Database, Application string
	Message                               string
}

const separator = "\x1f"

// ParseLogLine understands one line. What has no prefix is all message.
func ParseLogLine(line []byte) LogLine {
	if rest, ok := bytes.CutPrefix(line, []byte{'\t'}); ok {
		return LogLine{Continued: true, Message: string(rest)}
	}
	parts := strings.SplitN(string(line), separator, 8)
	if len(parts) != 8 || parts[0] != "" {
		return LogLine{Message: string(line)}
	}
	parsed := LogLine{Time: parts[1], SQLState: parts[3], User: parts[4], Database: parts[5], Application: parts[6]}
	parsed.PID, _ = strconv.Atoi(parts[2])
	severity, message, found := strings.Cut(parts[7], ":  ")
	if !found {
		parsed.Message = parts[7]
		return parsed
	}
	parsed.Severity, parsed.Message = severity, message
	return parsed
}
