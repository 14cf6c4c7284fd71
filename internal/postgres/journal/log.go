package journal

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"
)

// Log turns PostgreSQL's log into structured lines. An entry of several lines becomes one: it is kept until the
// next one begins or a moment has passed.
type Log struct {
	handler slog.Handler

	mutex sync.Mutex
	entry *Line
	timer *time.Timer
}

const (
	// entryPatience is how long the end of an entry is waited for.
	entryPatience = 50 * time.Millisecond
	// longestEntry is where an entry is cut.
	longestEntry = 256 << 10
)

// NewLog makes one whose lines go to the handler.
func NewLog(handler slog.Handler) *Log {
	l := &Log{handler: handler.WithAttrs([]slog.Attr{slog.String("logger", "postgres")})}
	l.timer = time.AfterFunc(math.MaxInt64, l.Flush)
	return l
}

// Add takes one line.
func (l *Log) Add(text []byte) {
	line := Parse(text)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if line.Continued && l.entry != nil {
		if len(l.entry.Message) < longestEntry {
			l.entry.Message += "\n" + line.Message
		}
		return
	}
	l.write()
	l.entry = &line
	l.timer.Reset(entryPatience)
}

// Flush writes what is kept.
func (l *Log) Flush() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.write()
}

func (l *Log) write() {
	if l.entry == nil {
		return
	}
	entry := l.entry
	l.entry = nil
	record := slog.NewRecord(timeOf(entry.Time), levelOf(entry.Severity), entry.Message, 0)
	add := func(key, value string) {
		if value != "" {
			record.AddAttrs(slog.String(key, value))
		}
	}
	add("severity", entry.Severity)
	if entry.SQLState != "00000" {
		add("sqlstate", entry.SQLState)
	}
	if entry.PID != 0 {
		record.AddAttrs(slog.Int("pid", entry.PID))
	}
	add("user", entry.User)
	add("database", entry.Database)
	add("application", entry.Application)
	// There is nowhere to tell that the log cannot be written.
	_ = l.handler.Handle(context.Background(), record)
}

// timeOf falls back to now for a line without a time: one from before the configuration was read.
func timeOf(seconds string) time.Time {
	parsed, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return time.Now()
	}
	return time.UnixMilli(int64(math.Round(parsed * 1000))).UTC()
}

func levelOf(severity string) slog.Level {
	switch severity {
	case "PANIC", "FATAL", "ERROR":
		return slog.LevelError
	case "WARNING":
		return slog.LevelWarn
	case "DEBUG", "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
