package server

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// words is what is kept of the log of one start. The log is full of texts that tenants choose, so two things alone are
// kept: what the first process wrote before anybody could connect, and failures of the server's own processes.
type words struct {
	mutex sync.Mutex
	// first is the process that wrote the first line, which can only be the server's first one.
	first      int
	reached    bool
	complaints []string
	last       []string
}

const (
	mostComplaints = 100
	mostLast       = 5
	longestText    = 600
	// prefixSeparators is how many separators the prefix of a line has.
	prefixSeparators = 7
)

// opens is what the first process says just before it listens.
const opens = "starting PostgreSQL"

// verbose is the SQL state that log_error_verbosity puts in front of a message.
var verbose = regexp.MustCompile(`^[0-9A-Z]{5}: `)

// telling are the levels of what people should know of a server that fails.
var telling = []string{"FATAL", "PANIC", "HINT"}

func ownWords(line LogLine) bool {
	return line.Severity != "" && line.User == "" && line.Database == ""
}

func (w *words) add(line []byte) {
	parsed := ParseLogLine(line)
	text := strings.TrimSpace(verbose.ReplaceAllString(parsed.Message, ""))
	// A name that a client sends may hold the separator; the server's own lines have it in the prefix alone.
	own := ownWords(parsed) && bytes.Count(line, []byte(separator)) == prefixSeparators
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if own && w.first == 0 {
		w.first = parsed.PID
	}
	byFirst := own && parsed.PID == w.first
	prefixed := parsed.PID != 0
	if prefixed && !own || byFirst && strings.HasPrefix(text, opens) {
		w.reached = true
	}
	if byFirst && !w.reached && (parsed.Severity == "LOG" || parsed.Severity == "FATAL") {
		w.complaints = keep(w.complaints, text, mostComplaints)
	}
	// Before it has a log, the server tells of its failure without a prefix.
	bare := !prefixed && !parsed.Continued && !w.reached && text != ""
	if bare || own && slices.Contains(telling, parsed.Severity) {
		w.last = keep(w.last, text, mostLast)
	}
}

// keep appends, and forgets the oldest beyond a number.
func keep(lines []string, text string, most int) []string {
	lines = append(lines, text)
	return slices.Delete(lines, 0, max(0, len(lines)-most))
}

func (w *words) clear() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.first, w.reached, w.complaints, w.last = 0, false, nil, nil
}

func (w *words) wasReached() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.reached
}

// before is what was written before the doors were opened.
func (w *words) before() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.complaints)
}

// text is for people.
func (w *words) text() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	text := strings.Join(w.last, "; ")
	return strings.ToValidUTF8(text[max(0, len(text)-longestText):], "")
}
