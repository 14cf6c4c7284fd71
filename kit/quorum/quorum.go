// Package quorum keeps two things in step that cannot be changed at once: a record of which copies count and how many
// of them have each acknowledged write, and the setting by which a writer waits for copies. As long as [Intersects]
// holds between the setting in force and the record, any [Record.Answers] members of the record include one that has
// every acknowledged write, so that whoever hears that many answers loses nothing.
//
// The package is pure: it knows neither clocks nor networks, and calls a copy by a string. Start reading at [Next].
package quorum

import (
	"slices"
)

// Record says which copies count, the writer's own included, and how many of them have each acknowledged write.
type Record struct {
	Members []string
	W       int
}

// Answers is how many members must answer so that one of them has every acknowledged write.
func (r Record) Answers() int { return len(r.Members) - r.W + 1 }

// Setting is what the writer waits for: K of Names have a write before it is acknowledged, besides the writer itself.
type Setting struct {
	Names []string
	K     int
}

// Equal says whether both wait for the same.
func (s Setting) Equal(other Setting) bool {
	return s.K == other.K && len(s.Names) == len(other.Names) && subset(s.Names, other.Names)
}

// Intersects is the invariant (Q1): every copy that an acknowledgement counts is a member, and there are at least W of
// them, the writer's own included. It must hold before and after each change of either side.
func Intersects(setting Setting, record Record) bool {
	return subset(setting.Names, record.Members) && setting.K <= len(setting.Names) && setting.K+1 >= record.W
}

// Resting is the setting that belongs to a record when nothing changes: the writer waits for as many of the other
// members as the record promises.
func Resting(self string, record Record) Setting {
	return Setting{Names: without(record.Members, self), K: record.W - 1}
}

// Copy is what the writer knows of another copy.
type Copy struct {
	ID string
	// Near says that it takes the log as it is written and lacks little.
	Near bool
	// Flushed is how far it has stored the log.
	Flushed uint64
}

// Facts is what a step is decided on.
type Facts struct {
	// Self is the writer.
	Self   string
	Record Record
	// InForce is the setting that every part of the writer follows, nil while that is not sure (B1).
	InForce *Setting
	// Barrier is how far the writer had stored the log when it became sure that InForce is: what was acknowledged by an
	// older setting ends there.
	Barrier uint64
	// Copies are the others.
	Copies []Copy
}

// Wish is where to go.
type Wish struct {
	// Members are those that shall count, in the order in which they are added. The writer always counts.
	Members []string
	// Size is how many members there shall be in the end, if more than are known yet. W is not lowered while one of them
	// is only late.
	Size int
	// W is how many of n members shall have each write.
	W func(n int) int
}

// Majority is the usual wish for W: more than half, so that as many may be lost to writing as to an election.
func Majority(n int) int { return n/2 + 1 }

// Step is the next change. Exactly one of Record and Setting is there, or neither: then Wait says what for, empty if
// everything is as wished.
type Step struct {
	Record  *Record
	Setting *Setting
	Wait    string
}

// Next is the next step from where the facts are to the wish. It changes one side at a time, and only in the order that
// keeps Intersects true (Q1): a new member is recorded before it is waited for; one that leaves is waited for no more
// before it is recorded as gone, and not before enough others have all that was acknowledged with its help. A member is
// added before another one leaves (Q3).
func Next(facts Facts, wish Wish) Step {
	record := facts.Record
	steps := []func(Facts, Wish) (Step, bool){addMember, lower, takeOut, raise}
	for _, step := range steps {
		if next, taken := step(facts, wish); taken {
			return next
		}
	}
	resting := Resting(facts.Self, record)
	if facts.InForce == nil || !facts.InForce.Equal(resting) {
		return Step{Setting: &resting}
	}
	return Step{}
}

func addMember(facts Facts, wish Wish) (Step, bool) {
	for _, id := range wish.Members {
		if slices.Contains(facts.Record.Members, id) || !copyOf(facts, id).Near {
			continue
		}
		members := append(slices.Clone(facts.Record.Members), id)
		return Step{Record: &Record{Members: members, W: facts.Record.W}}, true
	}
	return Step{}, false
}

// lower makes W smaller in the record first: the setting may promise more than the record, never less.
func lower(facts Facts, wish Wish) (Step, bool) {
	goal := wish.W(max(wish.Size, len(wish.Members), 1))
	if facts.Record.W <= goal {
		return Step{}, false
	}
	return Step{Record: &Record{Members: slices.Clone(facts.Record.Members), W: facts.Record.W - 1}}, true
}

func takeOut(facts Facts, wish Wish) (Step, bool) {
	record := facts.Record
	index := slices.IndexFunc(record.Members, func(id string) bool {
		return id != facts.Self && !slices.Contains(wish.Members, id)
	})
	if index < 0 {
		return Step{}, false
	}
	leaving := record.Members[index]
	if len(record.Members)-1 < record.W {
		return Step{Wait: "another member must be there before " + leaving + " leaves"}, true
	}
	staying := without(record.Members, leaving)
	setting := Setting{Names: without(staying, facts.Self), K: record.W - 1}
	if facts.InForce == nil || !facts.InForce.Equal(setting) {
		return Step{Setting: &setting}, true
	}
	if having(facts, staying) < record.W {
		return Step{Wait: "the members that stay must have all that was written with the help of " + leaving}, true
	}
	return Step{Record: &Record{Members: staying, W: record.W}}, true
}

func raise(facts Facts, wish Wish) (Step, bool) {
	record := facts.Record
	if record.W >= min(wish.W(len(record.Members)), len(record.Members)) {
		return Step{}, false
	}
	setting := Setting{Names: without(record.Members, facts.Self), K: record.W}
	if facts.InForce == nil || !facts.InForce.Equal(setting) {
		return Step{Setting: &setting}, true
	}
	if having(facts, record.Members) < record.W+1 {
		return Step{Wait: "one more member must have all that was written before it is promised"}, true
	}
	return Step{Record: &Record{Members: slices.Clone(record.Members), W: record.W + 1}}, true
}

// having counts the members that have all that was acknowledged before the setting in force.
func having(facts Facts, members []string) int {
	count := 0
	for _, id := range members {
		known := copyOf(facts, id)
		if id == facts.Self || known.ID == id && known.Flushed >= facts.Barrier {
			count++
		}
	}
	return count
}

func copyOf(facts Facts, id string) Copy {
	for _, other := range facts.Copies {
		if other.ID == id {
			return other
		}
	}
	return Copy{}
}

func subset(some, all []string) bool {
	for _, one := range some {
		if !slices.Contains(all, one) {
			return false
		}
	}
	return true
}

func without(all []string, one string) []string {
	var rest []string
	for _, id := range all {
		if id != one {
			rest = append(rest, id)
		}
	}
	return rest
}
