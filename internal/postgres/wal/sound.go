package wal

import (
	"sync"

	"meridian.dev/meridian/internal/tenure"
)

// Sound is up to where the log of one timeline is known to be whole and on the disk: a receiver has flushed it, or it
// was read. What is beyond the replayed place can be gigabytes, and an election waits for their end. It may be used
// from any goroutine.
type Sound struct {
	scan    sync.Mutex
	mutex   sync.Mutex
	known   tenure.Position
	version int
}

// Position is as the function of that name. Whoever comes while the log is read waits, and need not read the same
// again.
func (s *Sound) Position(data string, timeline int, from uint64) (tenure.Position, error) {
	s.scan.Lock()
	defer s.scan.Unlock()
	known, version := s.load()
	found, err := Position(data, timeline, from, known)
	if err == nil {
		s.store(found, version)
	}
	return found, err
}

// Received takes up to where a receiver has flushed the log of a timeline.
func (s *Sound) Received(flushed tenure.Position) {
	_, version := s.load()
	s.store(flushed, version)
}

// Forget is for a copy that is about to be changed, or was: nothing is known of its log any more.
func (s *Sound) Forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.known, s.version = tenure.Position{}, s.version+1
}

func (s *Sound) load() (tenure.Position, int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.known, s.version
}

// store takes what was found when the log had this version.
func (s *Sound) store(found tenure.Position, version int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.version == version && found.Compare(s.known) > 0 {
		s.known = found
	}
}
