package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/postgres"
)

// Catalogue lists the repository and reads its small objects.
func (r *Repository) Catalogue(ctx context.Context) (backup.Catalogue, error) {
	owner, err := r.Owner(ctx)
	if err != nil {
		return backup.Catalogue{}, err
	}
	filing := filing{
		catalogue: backup.Catalogue{Owner: owner}, logs: map[int]*backup.Log{}, drafts: map[string]*backup.Draft{},
	}
	err = store.ListAll(ctx, r.Store, r.Root, func(object store.Object) error {
		filing.file(strings.TrimPrefix(object.Name, r.Root), object)
		return nil
	})
	if err != nil {
		return backup.Catalogue{}, err
	}
	for _, id := range filing.backups {
		var found backup.Backup
		if err := r.getJSON(ctx, backup.BaseName(id.ID), &found); err != nil {
			if err = r.lost(ctx, backup.BaseName(id.ID), err); errors.Is(err, ErrLost) {
				continue // It was deleted after the listing.
			}
			return backup.Catalogue{}, err
		}
		if found.ID != id.ID {
			return backup.Catalogue{}, fmt.Errorf("read %s: it says that it is %q", backup.BaseName(id.ID), found.ID)
		}
		found.At = id.At
		filing.catalogue.Backups = append(filing.catalogue.Backups, found)
	}
	for _, timeline := range filing.histories {
		content, err := r.getPlain(ctx, backup.HistoryName(timeline))
		if err != nil {
			return backup.Catalogue{}, err
		}
		history, err := postgres.ParseHistory(timeline, string(content))
		if err != nil {
			return backup.Catalogue{}, err
		}
		filing.log(timeline).History = history
	}
	if err := r.readTrials(ctx, &filing); err != nil {
		return backup.Catalogue{}, err
	}
	return filing.done(), nil
}

// readTrials reads what restores on trial came to, of the backups that are there.
func (r *Repository) readTrials(ctx context.Context, filing *filing) error {
	for _, name := range filing.trials {
		trial := backup.Verified{Backup: name.Key.ID, At: name.At}
		if !slices.ContainsFunc(filing.backups, func(found backup.Draft) bool { return found.ID == trial.Backup }) {
			continue
		}
		if err := r.getJSON(ctx, name.Name, &trial); err != nil {
			if err = r.lost(ctx, name.Name, err); errors.Is(err, ErrLost) {
				continue
			}
			return err
		}
		filing.catalogue.Verified = append(filing.catalogue.Verified, trial)
	}
	return nil
}

// History reads the history of a timeline as it is.
func (r *Repository) History(ctx context.Context, timeline int) ([]byte, error) {
	return r.getPlain(ctx, backup.HistoryName(timeline))
}

// filing sorts the objects of a listing.
type filing struct {
	catalogue backup.Catalogue
	logs      map[int]*backup.Log
	drafts    map[string]*backup.Draft
	backups   []backup.Draft
	histories []int
	trials    []backup.Object
}

func (f *filing) log(timeline int) *backup.Log {
	if f.logs[timeline] == nil {
		f.logs[timeline] = &backup.Log{Timeline: timeline}
	}
	return f.logs[timeline]
}

func (f *filing) file(name string, object store.Object) {
	key := backup.ParseKey(name, f.catalogue.Owner.SegmentSize)
	f.catalogue.Objects = append(f.catalogue.Objects,
		backup.Object{Name: name, At: object.At, Size: object.Size, Key: key})
	if object.At.After(f.catalogue.Now) {
		f.catalogue.Now = object.At
	}
	switch key.Kind {
	case backup.KindTerm:
		f.catalogue.Terms = append(f.catalogue.Terms, backup.Term{Term: key.Term})
	case backup.KindBackup:
		f.backups = append(f.backups, backup.Draft{ID: key.ID, At: object.At})
	case backup.KindBase:
		if f.drafts[key.ID] == nil {
			f.drafts[key.ID] = &backup.Draft{ID: key.ID}
		}
		if object.At.After(f.drafts[key.ID].At) {
			f.drafts[key.ID].At = object.At
		}
	case backup.KindSegment:
		log := f.log(key.Timeline)
		log.Segments = append(log.Segments, backup.Segment{Number: key.Number, At: object.At, Name: name})
	case backup.KindTail:
		log := f.log(key.Timeline)
		log.Tails = append(log.Tails,
			backup.Tail{Number: key.Number, From: key.From, To: key.To, At: object.At, Name: name})
	case backup.KindGap:
		log := f.log(key.Timeline)
		log.Gaps = append(log.Gaps, backup.Gap{First: key.Number, Last: key.To})
	case backup.KindHistory:
		f.histories = append(f.histories, key.Timeline)
		f.log(key.Timeline)
	case backup.KindVerified:
		f.trials = append(f.trials, backup.Object{Name: name, At: object.At, Key: key})
	case backup.KindOwner, backup.KindForeign:
	}
}

func (f *filing) done() backup.Catalogue {
	for _, found := range f.catalogue.Backups {
		delete(f.drafts, found.ID)
	}
	for _, draft := range f.drafts {
		f.catalogue.Drafts = append(f.catalogue.Drafts, *draft)
	}
	slices.SortFunc(f.catalogue.Drafts, func(a, b backup.Draft) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(f.catalogue.Backups, func(a, b backup.Backup) int {
		return cmp.Or(cmp.Compare(a.Stop, b.Stop), cmp.Compare(a.ID, b.ID))
	})
	for _, log := range f.logs {
		// The same segment may be there twice if encryption was turned on meanwhile.
		slices.SortStableFunc(log.Segments, func(a, b backup.Segment) int { return cmp.Compare(a.Number, b.Number) })
		log.Segments = slices.CompactFunc(log.Segments, func(a, b backup.Segment) bool { return a.Number == b.Number })
		slices.SortFunc(log.Tails, func(a, b backup.Tail) int {
			return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		})
		f.catalogue.Logs = append(f.catalogue.Logs, *log)
	}
	slices.SortFunc(f.catalogue.Logs, func(a, b backup.Log) int { return cmp.Compare(a.Timeline, b.Timeline) })
	if first := f.catalogue.Log(1); first != nil && first.History == nil {
		first.History = postgres.History{{Timeline: 1}} // The first one has no file.
	}
	return f.catalogue
}
