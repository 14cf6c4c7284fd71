// Package journal understands PostgreSQL's log: its lines, and what a start of the server has said of itself. It reads
// nothing, and writes nothing but the lines of a Log, to a handler that it is given. Start reading at Words.
package journal

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Words is what is kept of the log of one start. The log is full of texts that tenants choose, so two things alone are
// kept: what the first process wrote before anybody could connect, and failures of the server's own processes.
type Words struct {
	mutex sync.Mutex
	// first is the process that wrote the first line, which can only be the server's first one.
	first      int
	reached    bool
	complaints []string
	last       []string
	gone       bool
	// open says that sessions have been let in, goneAtStart that gone was said before that.
	open, goneAtStart bool
	// consistent says that the server had replayed enough to let somebody in.
	consistent bool
	// cancelled counts commits that a session no longer waited for, over all starts.
	cancelled int64
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

// removed is what the receiver is told when the log it needs is not kept any more.
var removed = regexp.MustCompile(
	`^could not receive data from WAL stream: .*requested WAL segment [0-9A-F]+ has already been removed`)

// accepts is what the first process says before it lets the first session in.
var accepts = regexp.MustCompile(`^database system is ready to accept`)

// consistent is what the startup process says when it has replayed all that the copy needs to be one.
// Transactions of the primary may hold up the first session after that.
var consistent = regexp.MustCompile(`^consistent recovery state reached at `)

// cancelled is the warning that a commit is on this server and may be on no other: its wait was cancelled, or its
// session ended. A tenant can write the same, so it is counted, and nothing is decided by it.
var cancelled = regexp.MustCompile(`^canceling (the )?wait for synchronous replication`)

func ownWords(line Line) bool {
	return line.Severity != "" && line.User == "" && line.Database == ""
}

// news is what the loop shall look at without delay. Other lines may come a thousand times a second.
var news = regexp.MustCompile(`\b(WAL|replication|recovery|timeline|ready to accept)\b`)

// Add takes a line, and says whether the server itself told news.
func (w *Words) Add(line []byte) (told bool) {
	parsed := Parse(line)
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
	w.note(own, parsed.Severity, text)
	// Before it has a log, the server tells of its failure without a prefix.
	bare := !prefixed && !parsed.Continued && !w.reached && text != ""
	if bare || own && slices.Contains(telling, parsed.Severity) {
		w.last = keep(w.last, text, mostLast)
	}
	return own && news.MatchString(text)
}

// keep appends, and forgets the oldest beyond a number.
func keep(lines []string, text string, most int) []string {
	lines = append(lines, text)
	return slices.Delete(lines, 0, max(0, len(lines)-most))
}

// Clear forgets all, for another start.
func (w *Words) Clear() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.first, w.reached, w.complaints, w.last, w.gone = 0, false, nil, nil, false
	w.open, w.goneAtStart, w.consistent = false, false, false
}

// note looks for what is decided upon, in the words of the server alone, and for what is counted, in all.
func (w *Words) note(own bool, severity, text string) {
	if own && accepts.MatchString(text) {
		w.open = true
	}
	if own && consistent.MatchString(text) {
		w.consistent = true
	}
	if own && removed.MatchString(text) {
		w.gone = true
		w.goneAtStart = w.goneAtStart || !w.open
	}
	if severity == "WARNING" && cancelled.MatchString(text) {
		w.cancelled++
	}
}

// CancelledWaits counts commits that a session no longer waited for, over all starts.
func (w *Words) CancelledWaits() int64 {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.cancelled
}

// Lost says that the upstream does not have the WAL any more that the server needs, and whether that was said before
// any session was let in, so that no tenant can have had a part in the text.
func (w *Words) Lost() (said, atStart bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.gone, w.goneAtStart
}

// Consistent says that the server has replayed all that its copy needs to be one, and open that it lets sessions in.
func (w *Words) Consistent() (said, open bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.consistent, w.open
}

// Reached says that somebody may have spoken with the server.
func (w *Words) Reached() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.reached
}

// Complaints are what were written before the doors were opened.
func (w *Words) Complaints() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.complaints)
}

// Text is for people.
func (w *Words) Text() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	text := strings.Join(w.last, "; ")
	return strings.ToValidUTF8(text[max(0, len(text)-longestText):], "")
}

// Line is one line of PostgreSQL's log. The log goes to standard error with the prefix of package render: the
// server's own JSON format needs its logging collector, which writes files and would outgrow the volume.
type Line struct {
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

// Parse understands one line. What has no prefix is all message.
func Parse(line []byte) Line {
	if rest, ok := bytes.CutPrefix(line, []byte{'\t'}); ok {
		return Line{Continued: true, Message: string(rest)}
	}
	parts := strings.SplitN(string(line), separator, 8)
	if len(parts) != 8 || parts[0] != "" {
		return Line{Message: string(line)}
	}
	parsed := Line{Time: parts[1], SQLState: parts[3], User: parts[4], Database: parts[5], Application: parts[6]}
	parsed.PID, _ = strconv.Atoi(parts[2])
	severity, message, found := strings.Cut(parts[7], ":  ")
	if !found {
		parsed.Message = parts[7]
		return parsed
	}
	parsed.Severity, parsed.Message = severity, message
	return parsed
}
