package server

import (
	"context"
	"log/slog"
	"regexp"
	"time"
)

// LogLine is a line of the server's log.
type LogLine struct {
	Time    time.Time // Zero if the line has none.
	Level   slog.Level
	Message string
}

// logLine is the form of both servers: process, role, time, a sign for the level, text.
var logLine = regexp.MustCompile(`^\d+:[A-Z] (\d{1,2} \w{3} \d{4} \d{2}:\d{2}:\d{2}\.\d{3}) ([.*#-]) (.*)$`)

var logLevels = map[string]slog.Level{
	".": slog.LevelDebug, "-": slog.LevelDebug, "*": slog.LevelInfo, "#": slog.LevelWarn,
}

// ParseLogLine reads a line. One of another form is its own message.
func ParseLogLine(line []byte) LogLine {
	match := logLine.FindSubmatch(line)
	if match == nil {
		return LogLine{Message: string(line)}
	}
	at, err := time.Parse("02 Jan 2006 15:04:05.000", string(match[1]))
	if err != nil {
		at = time.Time{}
	}
	return LogLine{Time: at, Level: logLevels[string(match[2])], Message: string(match[3])}
}

// Log turns the server's log into structured lines.
func Log(handler slog.Handler) func([]byte) {
	handler = handler.WithAttrs([]slog.Attr{slog.String("logger", "server")})
	return func(line []byte) {
		if len(line) == 0 {
			return
		}
		parsed := ParseLogLine(line)
		if parsed.Time.IsZero() {
			parsed.Time = time.Now()
		}
		if !handler.Enabled(context.Background(), parsed.Level) {
			return
		}
		// There is nowhere to tell that the log cannot be written.
		_ = handler.Handle(context.Background(), slog.NewRecord(parsed.Time, parsed.Level, parsed.Message, 0))
	}
}
