package databases

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/pgmodel"
)

// Flaw is what is broken on purpose.
type Flaw struct {
	// Unjudged lets every copy pass for a part of the primary's history, hides positions of another timeline, and lets a
	// primary write on in the file in which its timeline begins (B3).
	Unjudged bool
	// Silent lets connections that say nothing keep a replica from proving that it has no receiver.
	Silent bool
	// NoPlaces has standbys keep no WAL for other members.
	NoPlaces bool
	// Early takes a rewind that did nothing for one that was done.
	Early bool
	// Unflushed takes a rewind for done although its source has not flushed all that was copied (T1).
	Unflushed bool
	// Hasty takes the gate of every primary for open (I4).
	Hasty bool
	// Mutual has each copy that cannot go on take the others for further than itself (I4).
	Mutual bool
	// Midway has a copy that is being rewound pass for a whole one (I2).
	Midway bool
	// Doubled has members follow without a slot, so that one may have two senders (B2).
	Doubled bool
}

// generous takes every other whole copy for one that has come further on the timeline of the term.
type generous struct {
	tenure.Authority
	p *Pod
}

func (g generous) Places() []tenure.Place {
	places := slices.Clone(g.Authority.Places())
	for index := range places {
		places[index].Position = tenure.Position{Timeline: g.p.standing.Timeline, LSN: 1 << 60}
	}
	return places
}

// HangDisk keeps the disk of the server from flushing anything.
func (p *Pod) HangDisk(until time.Duration) {
	if p.diskHangs = max(p.diskHangs, until); !p.server.NoFlush {
		p.server.HoldFlush(true)
		p.stuckAt = p.w.Now()
		p.letTheDiskGo()
	}
}

func (p *Pod) letTheDiskGo() {
	p.w.After(p.diskHangs-p.w.Now(), func() {
		if p.w.Now() < p.diskHangs {
			p.letTheDiskGo()
			return
		}
		p.server.HoldFlush(false)
	})
}

// HangServer stops the processes of the server, and of nothing else.
func (p *Pod) HangServer(until time.Duration) {
	if !p.server.Frozen() {
		p.stuckAt = p.w.Now()
	}
	p.server.Freeze(until)
}

// HoldCheckpoints keeps every checkpoint from coming to an end.
func (p *Pod) HoldCheckpoints(until time.Duration) {
	p.server.HoldCheckpoints(true)
	start := p.process.start
	p.w.After(until-p.w.Now(), func() {
		if p.process.start == start {
			p.server.HoldCheckpoints(false)
		}
	})
}

// SlowReplay makes replay slow, until then or until the server starts again. One that never ends may be slower than
// what is written: such a replica never gets on.
func (p *Pod) SlowReplay(lag, until time.Duration) {
	p.server.ReplayLag, p.replaysSlowly = lag, max(p.replaysSlowly, until)
	start := p.process.start
	p.w.After(until-p.w.Now(), func() {
		if p.process.start == start && p.w.Now() >= p.replaysSlowly {
			p.server.ReplayLag = 0
		}
	})
}

// Silence has connections that say nothing.
func (p *Pod) Silence(until time.Duration) { p.silent = max(p.silent, until) }

// WriteMuch is a client that writes so many files of WAL, after which PostgreSQL writes a checkpoint, and standbys a
// restartpoint of it.
func (p *Pod) WriteMuch(files int) {
	for range files {
		if !p.sessions || p.server.Answers() != nil || p.server.Mode != pgmodel.Primary {
			return
		}
		p.write()
		_ = p.server.SwitchSegment()
	}
	_ = p.server.Checkpoint(nil)
	p.w.After(5*time.Second, func() {
		for _, other := range p.g.pods {
			if other.server.Mode == pgmodel.Standby {
				_ = other.server.Checkpoint(nil)
			}
		}
	})
}

// CancelWaits ends the waits of commits, which are there on this server alone, perhaps.
func (p *Pod) CancelWaits(terminate bool) {
	for _, commit := range p.server.Waits() {
		p.server.Cancel(commit, terminate)
	}
}

// Discards is how often a copy was given up.
func (g *Group) Discards() int { return g.discards }

// rewinds notes that a rewind was done.
func (p *Pod) rewinds() {
	const often, within = 12, time.Minute
	p.rewound = append(p.rewound, p.w.Now())
	if n := len(p.rewound); n >= often && p.w.Now()-p.rewound[n-often] < within {
		p.w.Wrong(law.RewindOnce, "%s was rewound %d times within %s", p.name, often, within)
	}
}
