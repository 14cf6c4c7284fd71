package databases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/pgmodel"
)

// mounts is what surrounds the server. What passwords and certificates are good for has its own tests.
type mounts struct{ p *Pod }

func (m mounts) Settings() (wire.Settings, error) {
	return m.p.host.Settings().Canonical(), nil
}

func (m mounts) Certificate() postgres.Certificate {
	return postgres.Certificate{Mounted: m.p.host.Certificate(), Installed: m.p.installed, Lent: m.p.lent}
}

func (m mounts) InstallCertificate(identity string) error {
	m.p.installed = identity
	return nil
}

func (m mounts) LendKey(name string) error {
	m.p.lent = []string{name}
	return nil
}

func (m mounts) TakeKeysBack() error {
	m.p.lent = nil
	return nil
}

func (m mounts) Logins() (postgres.Logins, error) {
	return m.p.host.Logins(), nil
}

// probe tells of a primary that does not write.
type probe struct{ p *Pod }

func (b probe) Watch(start string) {
	if b.p.watched != start {
		b.p.watched, b.p.watching = start, b.p.w.Now()
	}
}

func (b probe) Hung() bool {
	p := b.p
	stuck := p.server.Running() && (p.server.NoFlush || p.server.Frozen())
	return p.watched != "" && stuck && p.w.Now()-max(p.stuckAt, p.watching) > 3*time.Second
}

// starters are parameters that only a start puts in force.
var starters = []string{"max_connections", "shared_buffers", "max_locks_per_transaction"}

// loaded is what goes with the files and is none of the server's business.
type loaded struct {
	mark, settings, names string
	open                  bool
	key, address          string
	starters              []string
}

// disk is the volume.
type disk struct{ p *Pod }

func (d disk) Look(context.Context) (postgres.Volume, postgres.Data) {
	p := d.p
	volume := postgres.Volume{Lock: postgres.LockFree}
	if p.locked {
		volume.Lock = postgres.LockOurs
	}
	if p.record != nil {
		copied := *p.record
		volume.Record = &copied
	}
	on := p.server.Disk
	if on == nil {
		return volume, postgres.Data{Presence: postgres.DataAbsent}
	}
	return volume, postgres.Data{
		Presence: postgres.DataPresent, Private: true, Major: on.Major, SystemIdentifier: on.System,
		Timeline: on.Control.Timeline(), Standby: on.Standby, Consistent: on.Control.Minimum,
		State: string(on.Control.State), PIDFile: p.pid, Checkpointed: on.Control.Checkpoint.Timeline,
	}
}

func (d disk) Files(names []string) ([]postgres.File, error) {
	var all []postgres.File
	for _, name := range names {
		if found, there := d.p.files[name]; there {
			all = append(all, postgres.File{Name: name, Hash: found.hash, Ours: true})
		}
	}
	return all, nil
}

func (d disk) Lock() error {
	d.p.locked = true
	return nil
}

func (d disk) WriteRecord(record postgres.Record) error {
	if _, err := record.Encode(); err != nil {
		return err
	}
	before := d.p.record
	switch {
	case before == nil || before.InProgress == record.InProgress:
	case record.InProgress == postgres.StepRewind:
		defer func() { d.p.w.Rewinds(d.p.index, d.p.Writes()) }()
	case record.InProgress == postgres.StepDiscard && before.InProgress == "" && !d.p.Short():
		d.p.w.GivesUp(d.p.index, d.p.Writes())
	}
	d.p.record = &record
	return nil
}

func (d disk) Initialise(_ context.Context, how postgres.Initialise) error {
	d.p.server.Disk = pgmodel.NewDisk(d.p.w.Identity("74"), how.Major, segment)
	d.p.files = map[string]file{}
	return nil
}

func (d disk) WriteFile(content postgres.Content) error {
	if d.p.server.Disk == nil {
		return errors.New("there is no data directory")
	}
	d.p.files[content.Name] = file{content.Text, render.Hash(content.Text)}
	return nil
}

func (d disk) TightenMode() error { return nil }

func (d disk) RemovePIDFile() error {
	d.p.pid = false
	return nil
}

func (d disk) Programs(context.Context) postgres.Programs {
	return postgres.Programs{Major: d.p.g.major, User: "postgres"}
}

func (d disk) Position(uint64) (tenure.Position, error) {
	on := d.p.server.Disk
	if on == nil {
		return tenure.Position{}, errors.New("there is no data directory")
	}
	if d.p.server.NoFlush {
		return tenure.Position{}, errors.New("what was found cannot be stored: the disk does not answer")
	}
	end, timeline := on.Position()
	if record := d.p.record; record != nil && record.InProgress == postgres.StepRewind {
		// pg_rewind empties the last file that both have, and copies it anew.
		return tenure.Position{Timeline: timeline, LSN: end.End / segment * segment}, nil
	}
	return tenure.Position{Timeline: timeline, LSN: end.End}, nil
}

// Received implements postgres.Disk: to read the log takes no time here.
func (d disk) Received(tenure.Position) {}

func (d disk) Upstream(text string) error {
	return d.WriteFile(postgres.Content{Name: render.UpstreamFile, Text: text})
}

func (d disk) Standby(replica bool) error {
	on := d.p.server.Disk
	if replica {
		on.Log.DropPlaceholders()
		on.Log.DropRepeated(on.Control.Timeline())
	}
	on.Standby = replica
	return nil
}

func (d disk) Reserve(timeline int) error {
	log := d.p.server.Disk.Log
	log.Reserve(timeline)
	if _, there := log.Histories[timeline]; there {
		return fmt.Errorf("reserve a timeline: %d was taken before", timeline)
	}
	return nil
}

func (d disk) Withdraw(timeline int) error {
	on := d.p.server.Disk
	end, reached := on.Position()
	for number := 2; number < timeline && !d.p.g.flaw.Astray; number++ {
		if d.strays(number) {
			on.Log.Withdraw(number)
		}
	}
	if _, there := on.Log.Histories[timeline]; !there {
		return nil
	}
	if reached >= timeline {
		return fmt.Errorf("withdraw timeline %d: the copy is at %d/%d", timeline, reached, end.End)
	}
	on.Log.Withdraw(timeline)
	return nil
}

// strays says that there is the history of a later timeline that comes from that of the copy and does not begin where
// the copy ends.
func (d disk) strays(timeline int) bool {
	on := d.p.server.Disk
	history, err := d.p.g.historyOf(on, timeline)
	if err != nil {
		return false
	}
	end, reached := on.Position()
	return history.Strays(tenure.Position{Timeline: reached, LSN: end.End})
}

func (d disk) History(timeline int) (postgres.History, error) {
	if d.p.g.flaw.Astray && d.p.standing.Role == tenure.RoleLead && d.p.server.Disk != nil && d.strays(timeline) {
		return nil, fmt.Errorf("look away from timeline %d: %w", timeline, fs.ErrNotExist)
	}
	return d.p.g.historyOf(d.p.server.Disk, timeline)
}

func (g *Group) historyOf(on *pgmodel.Disk, timeline int) (postgres.History, error) {
	if on == nil {
		return nil, errors.New("there is no data directory")
	}
	found, there := on.Log.Histories[timeline]
	if !there && timeline > 1 {
		return nil, fmt.Errorf("read the history of timeline %d: %w", timeline, fs.ErrNotExist)
	}
	var history postgres.History
	for _, branch := range found {
		history = append(history, postgres.Branch{Timeline: branch.Timeline, Begin: branch.Begin})
	}
	if len(history) == 0 {
		history = postgres.History{{Timeline: timeline}}
	}
	if g.flaw.Astray {
		return history, nil
	}
	return history.Effective(), nil
}

func (d disk) SpendReserve() error { return nil }
func (d disk) KeepReserve() error  { return nil }

func (d disk) Marked() (*postgres.Record, bool, error) {
	record := d.p.record
	if d.p.g.flaw.Midway && record != nil && record.InProgress == postgres.StepRewind {
		passes := *record
		passes.InProgress, record = "", &passes
	}
	return record, d.p.server.Disk != nil && d.p.server.Disk.Standby, nil
}

// configure makes the configuration of the model out of the files.
func (p *Pod) configure() {
	conf := pgmodel.Conf{Retry: 100 * time.Millisecond, Timeout: 5 * time.Second, Keep: 256 << 20, SlotKeep: 2 << 30}
	var more loaded
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		for line := range strings.Lines(p.files[name].text) {
			key, value, found := strings.Cut(strings.TrimSpace(line), " = ")
			if !found {
				continue
			}
			value = strings.Trim(value, "'")
			if slices.Contains(starters, key) {
				more.starters = append(more.starters, key+" = "+value)
			}
			switch key {
			case "synchronous_standby_names":
				more.names = value
				conf.Sync = quorum(value)
			case "primary_slot_name":
				conf.Slot = value
				if p.g.flaw.Doubled {
					conf.Slot = ""
				}
			case "primary_conninfo":
				conf.Upstream, conf.Name, more.address, more.key = whom(value)
			case render.MarkParameter:
				more.mark = value
			case render.SettingsParameter:
				more.settings = value
			case render.GateParameter:
				more.open = value == render.GateOpen
			}
		}
	}
	conf.More = more
	p.server.Disk.Conf = conf
}

// quorum reads ANY k ("one", "two").
func quorum(text string) pgmodel.Sync {
	var found pgmodel.Sync
	if _, err := fmt.Sscanf(text, "ANY %d", &found.K); err != nil {
		return pgmodel.Sync{}
	}
	for index, word := range strings.Split(text, `"`) {
		if index%2 == 1 {
			found.Names = append(found.Names, word)
		}
	}
	return found
}

// whom reads primary_conninfo.
func whom(text string) (upstream, name, address, key string) {
	for _, word := range strings.Fields(text) {
		switch field, value, _ := strings.Cut(word, "="); field {
		case "host":
			upstream, _, _ = strings.Cut(value, "-0.")
		case "hostaddr":
			address = value
		case "application_name":
			name = value
		case "sslcert":
			key = path.Base(path.Dir(value))
		}
	}
	return upstream, name, address, key
}

// enters says whether a receiver gets in: by a key that is still lent, and at the right address.
func (p *Pod) enters(conf pgmodel.Conf) bool {
	more, ok := conf.More.(loaded)
	up := p.g.named(conf.Upstream)
	return ok && up != nil && slices.Contains(p.lent, more.key) &&
		(more.address == "" || more.address == up.host.Address())
}
