package backup

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Root is the folder of a database in a repository. The UID keeps namesakes apart.
func Root(prefix, namespace, name, uid string) string {
	return path.Join(prefix, namespace, name, uid) + "/"
}

// Kind says what an object is.
type Kind string

// The kinds of objects.
const (
	KindOwner    Kind = "owner"
	KindTerm     Kind = "term"
	KindBackup   Kind = "backup"
	KindBase     Kind = "base" // A part or a manifest.
	KindSegment  Kind = "segment"
	KindTail     Kind = "tail"
	KindGap      Kind = "gap"
	KindHistory  Kind = "history"
	KindVerified Kind = "verified"
	KindForeign  Kind = "foreign" // Nothing of ours, or of a later version: never touched.
)

// Key is the name of an object, taken apart. Which fields count depends on the kind.
type Key struct {
	Kind     Kind
	Term     int64
	ID       string // Of a base backup.
	Timeline int
	Number   uint64 // Of a segment; the first one of a gap.
	From, To uint64 // Of a tail; To is the last segment of a gap.
}

// OwnerName is the name of the object that says whose repository it is.
const OwnerName = "owner.json"

// TermName is the name of the object of a term.
func TermName(term int64) string { return fmt.Sprintf("terms/%010d.json", term) }

// BaseName is the name of the object that makes a base backup exist.
func BaseName(id string) string { return "base/" + id + "/backup.json" }

// PartName is the name of a part, and ManifestName that of the manifest, of a base backup. The suffix says how they are
// sealed.
func PartName(id string, number int, suffix string) string {
	return fmt.Sprintf("base/%s/part-%05d.tar%s", id, number, suffix)
}

// ManifestName is the name of PostgreSQL's own list of the files of a base backup.
func ManifestName(id, suffix string) string { return "base/" + id + "/manifest" + suffix }

// WALName is the name of a whole segment.
func WALName(timeline int, number, size uint64, suffix string) string {
	return fmt.Sprintf("wal/%08X/%s%s", timeline, SegmentName(timeline, number, size), suffix)
}

// TailName is the name of a piece of a segment. Both ends are a part of it: a reader must see from a listing which
// pieces follow each other, also when two writers have cut differently.
func TailName(timeline int, tail Tail, size uint64, suffix string) string {
	return fmt.Sprintf("wal/%08X/%s.%08X-%08X.tail%s",
		timeline, SegmentName(timeline, tail.Number, size), tail.From, tail.To, suffix)
}

// GapName is the name of the record of a gap.
func GapName(timeline int, gap Gap, size uint64) string {
	return fmt.Sprintf("wal/%08X/%s-%s.gap", timeline,
		SegmentName(timeline, gap.First, size), SegmentName(timeline, gap.Last, size))
}

// HistoryName is the name of the history of a timeline.
func HistoryName(timeline int) string {
	return fmt.Sprintf("wal/%08X/%08X.history", timeline, timeline)
}

// VerifiedName is the name of the record that a backup was restored on trial.
func VerifiedName(id, time string) string { return "verified/" + id + "." + time + ".json" }

// ParseKey takes the name of an object below the root apart.
func ParseKey(name string, size uint64) Key {
	folder, file := path.Split(name)
	folder = strings.TrimSuffix(folder, "/")
	switch top, rest, _ := strings.Cut(folder, "/"); {
	case name == OwnerName:
		return Key{Kind: KindOwner}
	case folder == "terms":
		term, err := strconv.ParseInt(strings.TrimSuffix(file, ".json"), 10, 64)
		if err == nil && name == TermName(term) {
			return Key{Kind: KindTerm, Term: term}
		}
	case folder == "verified":
		if id, _, found := strings.Cut(file, "."); found {
			return Key{Kind: KindVerified, ID: id}
		}
	case top == "base" && rest != "" && !strings.Contains(rest, "/"):
		if file == "backup.json" {
			return Key{Kind: KindBackup, ID: rest}
		}
		return Key{Kind: KindBase, ID: rest}
	case top == "wal" && size > 0:
		timeline, valid := parseHex(rest)
		if key := parseLog(file, size); valid && key.Timeline == int(timeline) {
			return key
		}
	}
	return Key{Kind: KindForeign}
}

func parseLog(file string, size uint64) Key {
	foreign := Key{Kind: KindForeign}
	if name, found := strings.CutSuffix(file, ".history"); found {
		if timeline, valid := parseHex(name); valid {
			return Key{Kind: KindHistory, Timeline: int(timeline)}
		}
		return foreign
	}
	if name, found := strings.CutSuffix(file, ".gap"); found {
		first, last, _ := strings.Cut(name, "-")
		timeline, from, valid := ParseSegment(first, size)
		other, to, alsoValid := ParseSegment(last, size)
		if valid && alsoValid && timeline == other && from <= to {
			return Key{Kind: KindGap, Timeline: timeline, Number: from, To: to}
		}
		return foreign
	}
	name, rest, _ := strings.Cut(file, ".")
	timeline, number, valid := ParseSegment(name, size)
	if !valid {
		return foreign
	}
	ends, sealed, isTail := strings.Cut(rest, ".tail.")
	if !isTail {
		sealed = rest
	}
	// Another end is the name of something that was put aside, or of a later version.
	if sealed != "zst" && sealed != "zst.age" {
		return foreign
	}
	if !isTail {
		return Key{Kind: KindSegment, Timeline: timeline, Number: number}
	}
	begin, end, _ := strings.Cut(ends, "-")
	from, valid := parseHex(begin)
	to, alsoValid := parseHex(end)
	if !valid || !alsoValid || from >= to || to > size {
		return foreign
	}
	return Key{Kind: KindTail, Timeline: timeline, Number: number, From: from, To: to}
}
