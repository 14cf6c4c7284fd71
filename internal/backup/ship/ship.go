// Package ship brings an instance's log into the repository, each second, without archive_mode. What is shipped is
// decided by plan; this package reads the log and writes the objects, one after the other, and remembers what the
// repository has. It never writes to the data directory.
//
// Start reading at Shipper.Pass.
package ship

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/store"
)

// Shipper ships the log of one instance.
type Shipper struct {
	Repository *repository.Repository
	Log        Log
	// Most bounds what one pass writes, 0 for no bound: whoever has much to ship learns in between who leads.
	Most int
	// Progress is told after each write. It may be nil.
	Progress func()
	// Now is the clock by which a pass takes long, nil for that of the machine.
	Now func() time.Time

	// stored is what the repository has, by the last listing and our own writes since; nil if it must be listed.
	stored *backup.Catalogue
	// overtaken says that others have written since.
	overtaken bool
	// term is the one as whose primary it was listed, 0 for another member.
	term int64
	// compared says that the newest of what is stored was compared with the own log, differs what was found not to fit.
	compared bool
	differs  string
}

// Result is what a pass has come to.
type Result struct {
	// Confirmed is up to where the repository has the log without a hole that could still be filled from here.
	Confirmed backup.LSN
	Holds     []plan.Hold
	Actions   int
	// Gaps counts the gaps that were recorded, More says that something is left to ship.
	Gaps int
	More bool
	// Newest is the newest timeline that the repository has the history of.
	Newest int
}

// Newest is the newest timeline that the repository was seen to have the history of, 0 if it was not looked at.
func (s *Shipper) Newest() int {
	if s.stored == nil {
		return 0
	}
	return plan.Newest(s.stored).Timeline()
}

// Forget makes the next pass list the repository, as after a change of its owner or of the credentials.
func (s *Shipper) Forget() { s.stored = nil }

// Pass ships once. The facts come without what the repository has and without the local log. An error leaves nothing
// half done: the next pass decides again, and an object that was written after all is found to exist.
func (s *Shipper) Pass(ctx context.Context, facts plan.Facts) (Result, error) {
	begun := s.now()
	if err := s.look(ctx, facts); err != nil {
		return Result{}, err
	}
	highest, err := s.highestTerm(ctx)
	if err != nil {
		return Result{}, err
	}
	if facts.Local, err = s.Log.List(); err != nil {
		return Result{}, err
	}
	facts.Stored, facts.Highest = s.stored, highest
	if facts.Leads && !s.compared && highest <= facts.Term {
		if s.differs, err = s.compare(ctx, facts); err != nil {
			return Result{}, err
		}
		s.compared = true
	}
	facts.Differs = s.differs
	shipping := plan.Ship(facts)
	if violations := plan.Check(facts, shipping); len(violations) > 0 {
		return Result{}, fmt.Errorf("ship the log: the plan would break %s: %s", violations[0].Rule, violations[0].Detail)
	}
	result := Result{Holds: shipping.Holds, Newest: s.Newest()}
	for _, action := range shipping.Actions {
		if result.More = s.Most > 0 && result.Actions >= s.Most; result.More {
			break
		}
		if _, tail := action.(plan.PutTail); tail && s.now().Sub(begun) > tailPatience {
			result.More = true
			break
		}
		if err := s.do(ctx, facts, action); err != nil {
			result.Confirmed = plan.Confirmed(facts)
			return result, fmt.Errorf("%s: %w", action.Verb(), err)
		}
		if _, gap := action.(plan.PutGap); gap {
			result.Gaps++
		}
		result.Actions++
		if s.Progress != nil {
			s.Progress()
		}
	}
	result.Confirmed = plan.Confirmed(facts)
	return result, nil
}

func (s *Shipper) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// tailPatience is for how long the facts of a pass are young enough for a tail. The time at which the store gets it
// tells whoever restores that the log is complete up to then (plan.Reach), and more was flushed while a pass took long.
const tailPatience = 2 * time.Second

// look claims and lists the repository unless it is known. Only the primary claims it: the copy of another instance may
// be one that is about to be removed, of another system.
//
// Who becomes the primary lists anew: what the one before has shipped meanwhile may be gone here, since it is
// confirmed, and would be taken for a gap.
func (s *Shipper) look(ctx context.Context, facts plan.Facts) error {
	term := int64(0)
	if facts.Leads {
		term = facts.Term
	}
	if s.stored != nil && !s.overtaken && s.term == term {
		return nil
	}
	if facts.Leads {
		if err := s.Repository.Claim(ctx, facts.Owner); err != nil && !errors.Is(err, repository.ErrForeign) {
			return err
		}
	}
	catalogue, err := s.Repository.Catalogue(ctx)
	if err != nil {
		return err
	}
	catalogue.Objects = nil // Shipping needs no names.
	s.stored, s.overtaken, s.compared, s.term = &catalogue, false, false, term
	return nil
}

// highestTerm asks the store each time: a successor makes itself known there (K7).
func (s *Shipper) highestTerm(ctx context.Context) (int64, error) {
	var highest int64
	err := store.ListAll(ctx, s.Repository.Store, s.Repository.Root+"terms/", func(object store.Object) error {
		key := backup.ParseKey(strings.TrimPrefix(object.Name, s.Repository.Root), s.stored.Owner.SegmentSize)
		if key.Kind == backup.KindTerm {
			highest = max(highest, key.Term)
		}
		return nil
	})
	// A listing of the past does not take back what was seen.
	if highest = max(highest, s.stored.LatestTerm()); err == nil && highest > s.stored.LatestTerm() {
		s.stored.Terms = append(s.stored.Terms, backup.Term{Term: highest})
		s.overtaken = true
	}
	return highest, err
}

func (s *Shipper) do(ctx context.Context, facts plan.Facts, action plan.Action) error {
	stored := facts.Stored
	switch action := action.(type) {
	case plan.BeginTerm:
		if err := s.Repository.BeginTerm(ctx, action.Term); err != nil {
			return err
		}
		stored.Terms = append(stored.Terms, action.Term)
	case plan.PutHistory:
		content, err := s.Log.History(action.Timeline)
		if err != nil {
			return err
		}
		if err := s.Repository.PutHistory(ctx, action.Timeline, content); err != nil {
			return err
		}
		for index, branch := range facts.History {
			if branch.Timeline == action.Timeline {
				logOf(stored, action.Timeline).History = facts.History[:index+1]
			}
		}
	case plan.PutSegment:
		return s.putSegment(ctx, stored, action)
	case plan.PutTail:
		return s.putTail(ctx, stored, action)
	case plan.PutGap:
		if err := s.Repository.PutGap(ctx, stored.Owner, action.Timeline, action.Gap); err != nil {
			return err
		}
		log := logOf(stored, action.Timeline)
		log.Gaps = append(log.Gaps, action.Gap)
	}
	return nil
}

func (s *Shipper) putSegment(ctx context.Context, stored *backup.Catalogue, action plan.PutSegment) error {
	content, err := s.Log.Open(action.Timeline, action.Number, 0, stored.Owner.SegmentSize)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	if err := s.Repository.PutSegment(ctx, stored.Owner, action.Timeline, action.Number, content); err != nil {
		return err
	}
	log := logOf(stored, action.Timeline)
	index, _ := slices.BinarySearchFunc(log.Segments, action.Number, func(segment backup.Segment, number uint64) int {
		return int(int64(segment.Number) - int64(number))
	})
	log.Segments = slices.Insert(log.Segments, index, backup.Segment{Number: action.Number})
	log.Tails = slices.DeleteFunc(log.Tails, func(tail backup.Tail) bool { return tail.Number == action.Number })
	return nil
}

func (s *Shipper) putTail(ctx context.Context, stored *backup.Catalogue, action plan.PutTail) error {
	tail := action.Tail
	content, err := s.Log.Open(action.Timeline, tail.Number, tail.From, tail.To)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	if err := s.Repository.PutTail(ctx, stored.Owner, action.Timeline, tail, content); err != nil {
		return err
	}
	log := logOf(stored, action.Timeline)
	log.Tails = append(slices.DeleteFunc(log.Tails, func(older backup.Tail) bool {
		return older.Number == tail.Number && older.From >= tail.From
	}), tail)
	return nil
}

func logOf(catalogue *backup.Catalogue, timeline int) *backup.Log {
	if found := catalogue.Log(timeline); found != nil {
		return found
	}
	catalogue.Logs = append(catalogue.Logs, backup.Log{Timeline: timeline})
	slices.SortFunc(catalogue.Logs, func(a, b backup.Log) int { return a.Timeline - b.Timeline })
	return catalogue.Log(timeline)
}
