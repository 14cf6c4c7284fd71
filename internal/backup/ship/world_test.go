package ship_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/ship"
	"meridian.dev/meridian/internal/backup/store/model"
	"meridian.dev/meridian/internal/postgres"
)

const segment = 1024

var owner = backup.Owner{
	DatabaseUID: "uid", Namespace: "prod", Name: "cities", SystemIdentifier: "7", SegmentSize: segment, Major: 15,
}

// world is a database of three members in a random, hostile life, whose log goes into a model store. The truth is what
// each byte of the log of each history was.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	store   *model.Store
	faults  bool
	outage  int // For how many steps the store is away.
	members []*member
	// histories are the truth, by timeline.
	histories map[int]postgres.History
	term      int64
	timeline  int
	backups   int
	seen      counters
}

// counters show that a run was no idle one.
type counters struct {
	failovers, zombies, gaps, backups, deletes, files, fills, errors int
	found                                                            map[string]int // Flaws that were found, by rule.
	missed                                                           []string
}

type member struct {
	*world
	name    string
	history postgres.History
	flushed uint64
	kept    uint64 // The first segment that is still there.
	leads   bool
	term    int64
	shipper *ship.Shipper
}

// at is the byte of the log of a history at a place.
func at(history postgres.History, lsn uint64) byte {
	return byte(lsn*31) ^ byte(history.At(lsn+1)*101)
}

func (m *member) List() ([]plan.LocalLog, error) {
	var logs []plan.LocalLog
	for index, branch := range m.history {
		log := plan.LocalLog{Timeline: branch.Timeline, HasHistory: branch.Timeline > 1}
		end := m.flushed
		if index < len(m.history)-1 {
			end = m.history[index+1].Begin
		}
		for number := max(m.kept, branch.Begin/segment); number*segment <= end; number++ {
			log.Segments = append(log.Segments, number)
		}
		logs = append(logs, log)
	}
	return logs, nil
}

func (m *member) Open(timeline int, number, from, to uint64) (io.ReadCloser, error) {
	var content []byte
	history := m.histories[timeline]
	for lsn := number*segment + from; lsn < number*segment+to; lsn++ {
		content = append(content, at(history, lsn))
	}
	if m.random.IntN(50) == 0 && m.faults {
		return io.NopCloser(io.MultiReader(bytes.NewReader(content[:len(content)/2]), brokenReader{})), nil
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("recycled") }

func (m *member) History(timeline int) ([]byte, error) {
	var text bytes.Buffer
	history := m.histories[timeline]
	for index, branch := range history[:len(history)-1] {
		fmt.Fprintf(&text, "%d\t%s\tno recovery target specified\n", branch.Timeline, backup.LSN(history[index+1].Begin))
	}
	return text.Bytes(), nil
}

func (m *member) facts() plan.Facts {
	return plan.Facts{
		Owner: owner, Term: m.term, Leads: m.leads, Instance: m.name, History: m.history, Flushed: backup.LSN(m.flushed),
		MostTails: 3,
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), faults: true,
		histories: map[int]postgres.History{1: {{Timeline: 1}}}, term: 1, timeline: 1,
	}
	w.seen.found = map[string]int{}
	w.store = &model.Store{PageSize: 7, Now: func() time.Time { w.now = w.now.Add(time.Second); return w.now }}
	w.store.Fault = func(call, _ string) model.Fault {
		if w.faults && w.outage > 0 {
			return model.Refused
		}
		if !w.faults || w.random.IntN(20) > 0 {
			return model.None
		}
		faults := []model.Fault{model.Lost, model.Late, model.Refused, model.Denied, model.Old}
		if call == "get" {
			faults = append(faults, model.Missed)
		}
		return faults[w.random.IntN(len(faults))]
	}
	for _, name := range []string{"a", "b", "c"} {
		m := &member{world: w, name: name, history: w.histories[1], flushed: 5*segment + 100, term: 1, leads: name == "a"}
		m.shipper = w.newShipper(m)
		w.members = append(w.members, m)
	}
	return w
}

func (w *world) repository() *repository.Repository {
	return &repository.Repository{Store: w.store, Root: backup.Root("geo", owner.Namespace, owner.Name, owner.DatabaseUID)}
}

func (w *world) newShipper(m *member) *ship.Shipper {
	return &ship.Shipper{Repository: w.repository(), Log: m}
}

func (w *world) primary() *member {
	var primary *member
	for _, m := range w.members {
		if m.leads && (primary == nil || m.term > primary.term) {
			primary = m
		}
	}
	return primary
}

// step is one random event.
func (w *world) step() {
	m := w.members[w.random.IntN(len(w.members))]
	w.now = w.now.Add(time.Duration(w.random.IntN(600)) * time.Second)
	switch w.random.IntN(14) {
	case 0, 1, 2:
		w.write(w.random.IntN(5 * segment))
	case 3, 4, 5, 6:
		w.pass(w.primary())
	case 7:
		w.pass(m)
	case 8:
		w.failover()
	case 9:
		w.rejoin()
	case 10:
		m.shipper = w.newShipper(m) // Its agent was restarted.
	case 11:
		w.base()
	case 12:
		w.retain()
	case 13:
		w.recycle(m)
	}
	if w.outage = max(0, w.outage-1); w.random.IntN(25) == 0 {
		w.outage = 8
	}
	if w.random.IntN(4) == 0 {
		w.store.Settle()
	}
	if w.random.IntN(4) == 0 {
		w.store.Remember()
	}
	w.check()
}

// write lets every primary write, and those that follow the newest receive some of it.
func (w *world) write(size int) {
	for _, m := range w.members {
		if m.leads {
			m.flushed += uint64(size)
		}
	}
	primary := w.primary()
	for _, m := range w.members {
		if !m.leads && m.history.Timeline() == primary.history.Timeline() && w.random.IntN(4) > 0 {
			m.flushed = max(m.flushed, primary.flushed-uint64(w.random.IntN(100)))
			m.flushed = min(m.flushed, primary.flushed)
		}
	}
}

func (w *world) failover() {
	old := w.primary()
	var next *member
	for _, m := range w.members {
		if !m.leads && m.history.Timeline() == old.history.Timeline() && (next == nil || m.flushed > next.flushed) {
			next = m
		}
	}
	if next == nil {
		return
	}
	w.seen.failovers++
	w.term++
	w.timeline += 1 + w.random.IntN(2) // A promotion that failed used a number up.
	history := append(slices.Clone(next.history), postgres.Branch{Timeline: w.timeline, Begin: next.flushed})
	w.histories[w.timeline] = history
	next.history, next.leads, next.term = history, true, w.term
	// The old one does not know yet, and goes on.
}

// rejoin lets all others follow the newest primary. One that has log behind the fork is rewound, after it has had its
// time to ship what is below the fork.
func (w *world) rejoin() {
	primary := w.primary()
	for _, m := range w.members {
		if m == primary || m.history.Timeline() == primary.history.Timeline() {
			continue
		}
		w.pass(m)
		if m.leads {
			w.seen.zombies++
		}
		fork := primary.history[len(primary.history)-1].Begin
		m.leads, m.history, m.term = false, primary.history, primary.term
		m.flushed = min(m.flushed, fork)
		m.kept = min(m.kept, m.flushed/segment)
	}
}

// recycle drops old log. Mostly the slot holds what is not confirmed; sometimes it has been given up.
func (w *world) recycle(m *member) {
	m.kept = max(m.kept, min(m.flushed/segment, m.kept+uint64(w.random.IntN(8))))
}

func (w *world) pass(m *member) {
	before := m.facts()
	w.flaws(m)
	result, err := m.shipper.Pass(context.Background(), before)
	if err != nil {
		w.seen.errors++
	}
	if !m.leads && result.Actions > 0 {
		w.seen.fills++
	}
}

// catalogue lists without faults.
func (w *world) catalogue() *backup.Catalogue {
	faults := w.faults
	w.faults = false
	defer func() { w.faults = faults }()
	catalogue, err := w.repository().Catalogue(context.Background())
	if err != nil {
		return nil
	}
	return &catalogue
}

func (w *world) base() {
	catalogue, err := w.repository().Catalogue(context.Background())
	primary := w.primary()
	if err != nil || primary.flushed < 6*segment {
		return
	}
	w.backups++
	base := backup.Backup{
		ID: fmt.Sprintf("b%03d", w.backups), Timeline: primary.history.Timeline(),
		Start: backup.LSN(primary.flushed - uint64(w.random.IntN(segment))), Stop: backup.LSN(primary.flushed),
	}
	if uint64(base.Start) < primary.history[len(primary.history)-1].Begin ||
		!plan.MayComplete(&catalogue, primary.history, base) {
		return
	}
	if w.repository().PutBackup(context.Background(), base) == nil {
		w.seen.backups++
	}
}

var policy = plan.Policy{Window: time.Hour, AtLeast: 1}

func (w *world) retain() {
	catalogue, err := w.repository().Catalogue(context.Background())
	if err != nil {
		return
	}
	names := plan.Retain(&catalogue, policy)
	if violations := plan.CheckDeletes(&catalogue, policy, names); len(violations) > 0 {
		w.t.Fatalf("the deletions %v break %v", names, violations)
	}
	for _, name := range names {
		if w.repository().Delete(context.Background(), name) == nil {
			w.seen.deletes++
		}
	}
	w.deletionFlaws(&catalogue)
}

// check compares all that the repository says can be restored with the truth.
func (w *world) check() {
	catalogue := w.catalogue()
	if catalogue == nil {
		return
	}
	history := plan.Newest(catalogue)
	for _, window := range plan.Windows(catalogue) {
		if window.Until < window.From {
			w.t.Fatalf("a window of %s to %s", window.From, window.Until)
		}
		for _, file := range plan.Follow(catalogue, history, window.Backup.Start).Files {
			var content bytes.Buffer
			w.withoutFaults(func() {
				if err := w.repository().WriteFile(context.Background(), file, segment, &content); err != nil {
					w.t.Fatalf("segment %d of timeline %d: %v", file.Number, file.Timeline, err)
				}
			})
			w.seen.files++
			for offset, got := range content.Bytes() {
				want := at(history, file.Number*segment+uint64(offset))
				if uint64(offset) >= file.Valid {
					want = 0
				}
				if got != want {
					w.t.Fatalf("segment %d of timeline %d is not the log of %v at %d (valid %d)",
						file.Number, file.Timeline, history, offset, file.Valid)
				}
			}
		}
	}
}

func (w *world) withoutFaults(do func()) {
	faults := w.faults
	w.faults = false
	do()
	w.faults = faults
}

// settle ends all faults, and asks that the log is complete then.
func (w *world) settle() {
	w.store.Settle()
	w.faults = false
	w.rejoin()
	for range 3 {
		for _, m := range w.members {
			m.shipper.Forget()
			w.pass(m)
		}
	}
	w.check()
	catalogue, primary := w.catalogue(), w.primary()
	if got := plan.Newest(catalogue).Timeline(); got != primary.history.Timeline() {
		w.t.Fatalf("the repository follows timeline %d, and the database is on %d", got, primary.history.Timeline())
	}
	for _, log := range catalogue.Logs {
		w.seen.gaps += len(log.Gaps)
	}
	last := backup.LSN(primary.flushed / segment * segment)
	if last == 0 || uint64(last) < primary.history[len(primary.history)-1].Begin {
		return
	}
	if reach := plan.Follow(catalogue, primary.history, last); uint64(reach.Until) != max(primary.flushed, uint64(last)) {
		w.t.Fatalf("the repository leads from %s to %s, and the primary has flushed %s",
			last, reach.Until, backup.LSN(primary.flushed))
	}
}
