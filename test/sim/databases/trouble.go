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
	// Astray lets a replica that waits for the timeline of a lost primary be promoted as it is, and takes the history that
	// it writes then at its word (B3).
	Astray bool
	// Mute takes every server for one that lets sessions in.
	Mute bool
}

// Trouble is what goes wrong with a server beside its loop.
type Trouble string

// Troubles: its disk, its processes, its checkpoints, its replay, connections that say nothing, much WAL, cancelled
// waits, and a transaction with many subtransactions on whoever is primary.
const (
	TroubleDisk       Trouble = "disk-hangs"
	TroubleServer     Trouble = "server-hangs"
	TroubleCheckpoint Trouble = "checkpoint-held"
	TroubleReplay     Trouble = "slow-replay"
	TroubleSilent     Trouble = "silent-connections"
	TroubleMuch       Trouble = "much-WAL"
	TroubleCancel     Trouble = "waits-cancelled"
	TroubleLong       Trouble = "long-transaction"
)

// Befall has one of them for so long. Hangs says that the server or its loop may do nothing meanwhile.
func (p *Pod) Befall(trouble Trouble, size int, long time.Duration) (hangs bool) {
	until := p.w.Now() + long
	switch trouble {
	case TroubleDisk:
		p.hangDisk(until)
	case TroubleServer:
		p.hangServer(until)
	case TroubleCheckpoint:
		p.holdCheckpoints(until)
	case TroubleReplay:
		p.slowReplay(time.Duration(size)*100*time.Millisecond, until)
	case TroubleSilent:
		p.silent = max(p.silent, until)
	case TroubleMuch:
		p.writeMuch(size * 10)
	case TroubleCancel:
		p.cancelWaits(size%2 == 0)
	case TroubleLong:
		for _, each := range p.g.pods {
			each.runLong(long)
		}
	}
	return slices.Contains([]Trouble{TroubleDisk, TroubleServer, TroubleCheckpoint, TroubleSilent}, trouble)
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

// hangDisk keeps the disk of the server from flushing anything.
func (p *Pod) hangDisk(until time.Duration) {
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

// hangServer stops the processes of the server, and of nothing else.
func (p *Pod) hangServer(until time.Duration) {
	if !p.server.Frozen() {
		p.stuckAt = p.w.Now()
	}
	p.server.Freeze(until)
}

// holdCheckpoints keeps every checkpoint from coming to an end.
func (p *Pod) holdCheckpoints(until time.Duration) {
	p.server.HoldCheckpoints(true)
	start := p.process.start
	p.w.After(until-p.w.Now(), func() {
		if p.process.start == start {
			p.server.HoldCheckpoints(false)
		}
	})
}

// slowReplay makes replay slow, until then or until the server starts again. One that never ends may be slower than
// what is written: such a replica never gets on.
func (p *Pod) slowReplay(lag, until time.Duration) {
	p.server.ReplayLag, p.replaysSlowly = lag, max(p.replaysSlowly, until)
	start := p.process.start
	p.w.After(until-p.w.Now(), func() {
		if p.process.start == start && p.w.Now() >= p.replaysSlowly {
			p.server.ReplayLag = 0
		}
	})
}

// writeMuch is a client that writes so many files of WAL.
func (p *Pod) writeMuch(files int) {
	for range files {
		if !p.sessions || p.server.Answers() != nil || p.server.Mode != pgmodel.Primary {
			return
		}
		p.write()
		_ = p.server.SwitchSegment()
	}
	p.checkpoints()
}

// runLong is a client of a primary whose transaction has many subtransactions, and lasts so long.
func (p *Pod) runLong(lasts time.Duration) {
	if !p.sessions {
		return
	}
	open, err := p.server.OpenLong()
	if err != nil {
		return
	}
	p.w.Note(p.index, "a long transaction begins")
	p.checkpoints()
	p.w.After(lasts, func() { p.commitLong(open) })
}

// commitLong tries until its client hears of it, or its session has ended.
func (p *Pod) commitLong(open *pgmodel.Long) {
	id, level := p.w.NextWrite(), pgmodel.LevelOn
	if over, err := p.server.CommitLong(open, id, level, p.client(id, level)); !over && err != nil {
		p.w.After(time.Second, func() { p.commitLong(open) })
	}
}

// checkpoints has PostgreSQL write a checkpoint, and standbys a restartpoint of it.
func (p *Pod) checkpoints() {
	_ = p.server.Checkpoint(nil)
	p.w.After(5*time.Second, func() {
		for _, other := range p.g.pods {
			if other.server.Mode == pgmodel.Standby {
				_ = other.server.Checkpoint(nil)
			}
		}
	})
}

// cancelWaits ends the waits of commits, which are there on this server alone, perhaps.
func (p *Pod) cancelWaits(terminate bool) {
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
