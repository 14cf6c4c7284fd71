package pgmodel

import (
	"maps"
	"slices"
	"time"
)

// State is what the control file says.
type State string

// States of a data directory.
const (
	StateShutDown           State = "shut down"
	StateShutDownInRecovery State = "shut down in recovery"
	StateArchiveRecovery    State = "in archive recovery"
	StateCrashRecovery      State = "in crash recovery"
	StateProduction         State = "in production"
)

// Control is the control file.
type Control struct {
	State State
	// Checkpoint is the last one, nil if there is none yet.
	Checkpoint *Record
	// Minimum is how much must be replayed before anybody is let in, and MinimumTimeline on which timeline.
	Minimum         LSN
	MinimumTimeline int
}

// Timeline is the one that a server goes on with.
func (c Control) Timeline() int { return max(c.Checkpoint.Timeline, c.MinimumTimeline) }

// Sync is synchronous_standby_names: any so many of these names. None if K is 0.
type Sync struct {
	K     int
	Names []string
}

func (s Sync) defined() bool { return s.K > 0 && len(s.Names) > 0 }

func (s Sync) counts(name string) bool { return s.defined() && slices.Contains(s.Names, name) }

// Conf is the configuration, as far as it matters here.
type Conf struct {
	// Upstream is the server to follow, empty for none; Name is the name towards it, and Slot the place that it keeps.
	Upstream, Name, Slot string
	Sync                 Sync
	// Retry is wal_retrieve_retry_interval, Timeout how long a silent connection lasts.
	Retry, Timeout time.Duration
	// Keep is wal_keep_size, SlotKeep max_slot_wal_keep_size, 0 for none.
	Keep, SlotKeep LSN
	// More is whatever else goes with the files.
	More any
}

// Slot is a physical replication slot.
type Slot struct {
	Name string
	// Restart is where its log begins, 0 if it keeps nothing.
	Restart LSN
	// Lost says that its log is gone.
	Lost bool
	user *sender
}

// Busy says that somebody streams by it.
func (s *Slot) Busy() bool { return s.user != nil }

// Disk is a data directory.
type Disk struct {
	System  string
	Major   int
	Control Control
	Log     Log
	// Standby is standby.signal.
	Standby bool
	Slots   map[string]*Slot
	Conf    Conf
	// label is a backup label: where recovery begins, instead of what the control file says, and how far the backup goes.
	label *Record
}

// NewDisk makes what initdb makes.
func NewDisk(system string, major int, segment LSN) *Disk {
	d := &Disk{System: system, Major: major, Log: newLog(segment), Slots: map[string]*Slot{}}
	first := &Record{Timeline: 1, Start: segment, End: segment + smallest, Kind: KindShutdown}
	// The log begins with the second file, and nothing comes before.
	first.redo, first.from = first, first.Start
	d.Log.write(1, first)
	d.Control = Control{State: StateShutDown, Checkpoint: first}
	d.Conf = Conf{Retry: 5 * time.Second, Timeout: time.Minute}
	return d
}

// smallest is the size of a record.
const smallest = 128

// Clone is a copy of the volume as it is.
func (d *Disk) Clone() *Disk {
	copied := *d
	copied.Log = d.Log.Clone()
	copied.Slots = map[string]*Slot{}
	for name, slot := range d.Slots {
		copied.Slots[name] = &Slot{Name: slot.Name, Restart: slot.Restart, Lost: slot.Lost}
	}
	return &copied
}

// Forget drops what the log has after a place, of every timeline.
func (d *Disk) Forget(after LSN) { d.Log.cut(0, after) }

// End is the end of the log of a server that does not run, as its next start would find it.
func (d *Disk) End() *Record {
	timeline := d.Control.Timeline()
	if d.Standby {
		timeline = d.Log.newest(timeline)
	}
	end, _ := d.Log.follow(d.begin(), d.Log.history(timeline))
	return end
}

// begin is where recovery begins.
func (d *Disk) begin() *Record {
	if d.label != nil {
		return d.label.redo
	}
	return d.Control.Checkpoint.redo
}

// keepLog removes what a checkpoint does not need, and tells whose place was lost.
func (d *Disk) keepLog(end LSN) {
	keep := d.Log.number(d.Control.Checkpoint.from)
	if d.Conf.Keep > 0 {
		keep = min(keep, d.Log.number(end-min(end, d.Conf.Keep)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Slots)) {
		slot := d.Slots[name]
		switch {
		case slot.Lost || slot.Restart == 0:
		case d.Conf.SlotKeep > 0 && end > d.Conf.SlotKeep &&
			d.Log.number(slot.Restart) < d.Log.number(end-d.Conf.SlotKeep):
			slot.Lost, slot.Restart = true, 0
			if slot.user != nil {
				slot.user.close(TroubleNone)
			}
		default:
			keep = min(keep, d.Log.number(slot.Restart))
		}
	}
	d.Log.remove(keep)
}

// Position is how far the copy has come by its log alone, and on which timeline: that of the highest that has a record
// of its own, of those that descend from the one of the control file.
func (d *Disk) Position() (end *Record, timeline int) {
	history := d.Log.history(d.Log.newest(d.Control.Timeline()))
	if _, _, found := history.end(d.Control.Timeline()); !found {
		history = d.Log.history(d.Control.Timeline())
	}
	for index := len(history) - 1; index > 0; index-- {
		found, _ := d.Log.follow(d.begin(), history[:index+1])
		if found.Timeline == history[index].Timeline && found.End > history[index].Begin {
			return found, history[index].Timeline
		}
	}
	end, _ = d.Log.follow(d.begin(), history[:1])
	return end, history[0].Timeline
}
