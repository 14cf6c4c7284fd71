package lost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/ballot"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// What a copy that is given up has seen nobody knows: it may have led after all that the others know of, and whoever
// is no member may have heard of that. So terms and timelines go on well above, and the more so for each lease that was
// missed, by which a copy may have been given up as well.
const (
	termsGivenUp     = 100
	timelinesGivenUp = 10
)

// StandWithoutALease conducts an election in which all must answer (O2).
func StandWithoutALease(d *draft.Draft) bool {
	all := everybody(d)
	if !d.Vacant() || d.Engine.Data != tenure.DataWhole || d.Engine.Leading != nil || d.Bound() ||
		d.CannotLead() != "" || d.Write != nil || !slices.Contains(all, d.Self()) {
		return false
	}
	ended := d.Lease.Changed.Add(d.Lasts())
	turn := time.Duration(slices.Index(all, d.Self())) * draft.StandTurn
	if d.Recently(ended, turn) || d.Lease.Read < ended {
		return false
	}
	everybody := electorate(d, all)
	everybody.Open(d)
	if d.Ballot.Fencing == nil {
		everybody.Ask(d)
		return false
	}
	everybody.Collect(d)
	return false
}

// electorate is everybody: whom the quorum needs is what was lost with the lease.
func electorate(d *draft.Draft, all []wire.Member) ballot.Electorate {
	return ballot.Electorate{
		Members: all, Needed: len(all), ByName: true,
		Others:  func(member wire.Member) bool { return member != d.Self() },
		Opening: "tenure.restore-only-with-all-answers: the lease is lost, and nobody has recovered it",
		Enough:  "tenure.restore-only-with-all-answers: all members would answer",
		Asking:  "tenure.restore-only-with-all-answers: how far has it come?",
		Answer:  testimony,
		Win:     restore,
		TooFewWilling: func(silent []wire.Member, _ int) {
			d.Stall(wire.ReasonLeaseLost, fmt.Sprintf(
				"without the lease nobody becomes primary before all members have answered, and %v have not; a user can "+
					"give them up by the annotation %s of the lease", silent, wire.AnnotationGivenUp))
		},
		TooFewAnswers: func(int) {},
	}
}

// everybody are the members that must answer: those of every record of the highest term that anybody knows of, without
// the ones that a user has given up. They are sorted.
func everybody(d *draft.Draft) []wire.Member {
	records, _, _ := testimonies(d.Snapshot)
	return required(records, d.Lease.GivenUp)
}

// testimonies are the records that may be the last one, of all that this volume and the answers tell of: those of the
// highest term that anybody has seen in a lease, and those of later ones that were begun. Whether these were written
// nobody knows, so they do not take the place of the others. The highest term comes first, and of that what its holder
// tells. Also the highest term, and the highest timeline of any record or answer.
func testimonies(s tenure.Snapshot) (records []wire.LeaseRecord, term int64, timeline int) {
	told := []tenure.Answer{{Records: s.Testimony(), Held: s.Stored.HeldTerm, Term: s.Stored.MaxTerm}}
	if s.Ballot != nil {
		told = append(told, s.Ballot.Answers...)
	}
	var highest int64
	for _, answer := range told {
		term, timeline = max(term, answer.Term), max(timeline, answer.Position.Timeline)
		for _, record := range answer.Records {
			highest, timeline = max(highest, record.Term), max(timeline, record.Timeline)
		}
	}
	for _, held := range []bool{true, false} {
		for _, answer := range told {
			for _, record := range answer.Records {
				if record.Term >= min(term, highest) && (answer.Held == record.Term) == held {
					records = append(records, record)
				}
			}
		}
	}
	slices.SortStableFunc(records, func(a, b wire.LeaseRecord) int { return cmp.Compare(b.Term, a.Term) })
	return records, max(term, highest), timeline
}

func required(records []wire.LeaseRecord, givenUp []wire.Member) []wire.Member {
	var all []wire.Member
	for _, record := range records {
		for _, member := range record.Members {
			if !slices.Contains(all, member) && !slices.Contains(givenUp, member) {
				all = append(all, member)
			}
		}
	}
	slices.SortFunc(all, func(a, b wire.Member) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// restore writes the new lease with the last record, without the members that were given up.
func restore(d *draft.Draft) {
	records, term, timeline := testimonies(d.Snapshot)
	record := records[0]
	unknown := 2 * d.LeasesMissed()
	if len(d.Lease.GivenUp) > 0 {
		unknown++
	}
	term, timeline = term+int64(unknown)*termsGivenUp, timeline+unknown*timelinesGivenUp
	record.Members = slices.DeleteFunc(slices.Clone(record.Members), func(member wire.Member) bool {
		return slices.Contains(d.Lease.GivenUp, member)
	})
	if !record.Has(d.Self()) {
		return
	}
	record.W = min(record.W, len(record.Members))
	d.WriteLease(tenure.WriteRestore, "tenure.restore-only-with-all-answers: "+
		"all members have answered, and none has more than this copy", d.Self(),
		heir(d, record, term+1, timeline+1))
}
