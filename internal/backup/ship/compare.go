package ship

import (
	"bytes"
	"context"
	"errors"
	"io"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
)

// piece is an object of the log, and what it is of.
type piece struct {
	name             string
	number, from, to uint64
}

// compare finds whether the newest object of the own timeline that the own log still has is the same. A volume that was
// put back, or that lost what it had flushed, writes other bytes to the same places of the same timeline, and of two
// objects at one place the first stays.
func (s *Shipper) compare(ctx context.Context, facts plan.Facts) (differs string, err error) {
	newest, found := newestPiece(facts)
	if !found {
		return "", nil
	}
	stored, err := s.Repository.Open(ctx, newest.name)
	if err != nil {
		return "", unreadable(err)
	}
	defer func() { _ = stored.Close() }()
	own, err := s.Log.Open(facts.History.Timeline(), newest.number, newest.from, newest.to)
	if err != nil {
		return "", err
	}
	defer func() { _ = own.Close() }()
	var pieces [2][16 << 10]byte
	for {
		there, err := io.ReadFull(stored, pieces[0][:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return "", unreadable(err)
		}
		here, problem := io.ReadFull(own, pieces[1][:])
		if problem != nil && !errors.Is(problem, io.EOF) && !errors.Is(problem, io.ErrUnexpectedEOF) {
			return "", problem
		}
		if !bytes.Equal(pieces[0][:there], pieces[1][:here]) {
			return newest.name, nil
		}
		if err != nil || problem != nil {
			return "", nil
		}
	}
}

// unreadable lets go what says nothing about the own log: it is told by those who need it, and shipping goes on.
func unreadable(err error) error {
	if errors.Is(err, seal.ErrKeyWrong) || errors.Is(err, seal.ErrDamaged) || errors.Is(err, repository.ErrLost) {
		return nil
	}
	return err
}

func newestPiece(facts plan.Facts) (newest piece, found bool) {
	log, size := facts.Stored.Log(facts.History.Timeline()), facts.Owner.SegmentSize
	if log == nil {
		return piece{}, false
	}
	local := map[uint64]bool{}
	for _, own := range facts.Local {
		for _, number := range own.Segments {
			local[number] = local[number] || own.Timeline == log.Timeline
		}
	}
	look := func(one piece) {
		end := one.number*size + one.to
		if local[one.number] && backup.LSN(end) <= facts.Flushed && one.name != "" &&
			(!found || end > newest.number*size+newest.to) {
			newest, found = one, true
		}
	}
	for _, segment := range log.Segments {
		look(piece{segment.Name, segment.Number, 0, size})
	}
	for _, tail := range log.Tails {
		look(piece{tail.Name, tail.Number, tail.From, tail.To})
	}
	return newest, found
}
