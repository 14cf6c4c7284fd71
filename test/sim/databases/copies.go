package databases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim/pgmodel"
)

// copies makes copies of another server's data.
type copies struct{ p *Pod }

// Why a copy was not made.
var (
	errAway = errors.New("the other server does not answer")
	errGone = errors.New("the other server has removed WAL that the copy needs")
)

// reach is the pod of a source, nil if it is not reached.
func (c copies) reach(source postgres.Source) *Pod {
	name, _, _ := strings.Cut(source.Host, "-0.")
	up, p := c.p.g.named(name), c.p
	if up == nil || up == p || !p.w.Connected(p.index, up.index) || !p.w.Connected(up.index, p.index) ||
		p.w.Now() < up.host.Frozen() || up.server.Frozen() || source.Address != "" && source.Address != up.host.Address() ||
		up.server.Answers() != nil {
		return nil
	}
	return up
}

// Ask implements postgres.Copies.
func (c copies) Ask(ctx context.Context, source postgres.Source) (postgres.Upstream, error) {
	if err := c.p.sleep(ctx, c.p.w.Between(time.Millisecond, 10*time.Millisecond)); err != nil {
		return postgres.Upstream{}, err
	}
	up := c.reach(source)
	if up == nil {
		_ = c.p.sleep(ctx, c.p.w.Between(0, 3*time.Second))
		return postgres.Upstream{}, errAway
	}
	leads := func() bool {
		return source.Timeline == 0 || up.server.Mode == pgmodel.Primary && up.server.Timeline() >= source.Timeline
	}
	if err := c.p.wait(ctx, time.Second, leads); err != nil {
		return postgres.Upstream{}, err
	}
	if up = c.reach(source); up == nil {
		return postgres.Upstream{}, errAway
	}
	s := up.server
	history, err := c.p.g.historyOf(s.Disk, s.Timeline())
	if err != nil {
		return postgres.Upstream{}, err
	}
	if own := c.p.server.Disk; c.p.g.flaw.Unjudged && own != nil {
		if end, timeline := own.Position(); timeline < s.Timeline() {
			history, _ = c.p.g.historyOf(own, timeline)
			history = append(history, postgres.Branch{Timeline: s.Timeline(), Begin: end.End})
		}
	}
	answer := postgres.Upstream{
		Known: true, Leads: s.Mode == pgmodel.Primary, SystemIdentifier: s.Disk.System, LSN: s.Flushed(),
		History: history, ByTimeline: true, Open: c.p.g.flaw.Hasty,
	}
	if told, ok := s.Conf().More.(loaded); ok && told.open {
		answer.Open = true
	}
	return answer, c.p.sleep(ctx, c.p.w.Between(time.Millisecond, 10*time.Millisecond))
}

// Positions implements postgres.Copies.
func (c copies) Positions(ctx context.Context, source postgres.Source) (postgres.Positions, error) {
	if err := c.p.sleep(ctx, c.p.w.Between(time.Millisecond, 10*time.Millisecond)); err != nil {
		return postgres.Positions{}, err
	}
	up := c.reach(source)
	if up == nil {
		return postgres.Positions{}, errAway
	}
	answer := postgres.Positions{LSN: up.server.Flushed(), Slots: map[string]uint64{}}
	for _, line := range up.server.Senders() {
		if line.Slot != "" {
			answer.Slots[line.Slot] = line.Flush
		}
	}
	return answer, nil
}

// Gone implements postgres.Copies.
func (c copies) Gone(ctx context.Context, source postgres.Source, from tenure.Position) (uint64, error) {
	if err := c.p.sleep(ctx, c.p.w.Between(time.Millisecond, 10*time.Millisecond)); err != nil {
		return 0, err
	}
	up := c.reach(source)
	if up == nil || up.server.Flushed() < from.LSN {
		return 0, errAway
	}
	return up.server.Removed(from.Timeline, from.LSN), nil
}

// destroys tells of what the copy gives up.
func (p *Pod) destroys(lost []int) { p.w.Destroys(p.index, lost) }

// Discard implements postgres.Copies.
func (c copies) Discard(ctx context.Context) error {
	p := c.p
	p.g.discards++
	if on := p.server.Disk; on != nil {
		end, _ := on.Position()
		p.destroys(end.Writes())
	}
	p.server.Disk, p.files, p.pid = nil, map[string]file{}, false
	return p.sleep(ctx, p.w.Between(10*time.Millisecond, 500*time.Millisecond))
}

// Clone implements postgres.Copies.
func (c copies) Clone(ctx context.Context, source postgres.Source, _ func(done, total int64)) error {
	p := c.p
	up := c.reach(source)
	if up == nil {
		return errAway
	}
	if source.Slot != "" {
		up.server.CreateSlot(source.Slot)
	}
	if err := p.sleep(ctx, p.w.Between(200*time.Millisecond, 3*time.Second)); err != nil {
		return err
	}
	if up = c.reach(source); up == nil || p.w.Chance(0.05) && !p.w.Calm() {
		return errAway
	}
	if err := p.server.Clone(up.server); err != nil {
		return err
	}
	p.files = maps.Clone(up.files)
	delete(p.files, render.UpstreamFile)
	p.server.Disk.Standby, p.pid = true, false
	return nil
}

// Rewind implements postgres.Copies.
func (c copies) Rewind(ctx context.Context, source postgres.Source) error {
	p := c.p
	up := c.reach(source)
	if up == nil {
		return errAway
	}
	copied, takes := up.server.Flushed(), p.w.Between(200*time.Millisecond, 3*time.Second)
	if err := p.sleep(ctx, takes); err != nil {
		return err
	}
	if up = c.reach(source); up == nil {
		return errAway
	}
	if p.g.major < 16 && up.server.Disk.Control.Checkpoint.Timeline < source.Timeline && !p.g.flaw.Early {
		return fmt.Errorf("rewind: %w", postgres.ErrEarly)
	}
	before, _ := p.server.Disk.Position()
	needed, err := p.server.Rewind(up.server)
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	p.rewinds()
	if !needed && p.g.flaw.Early {
		return nil
	}
	if !needed {
		return fmt.Errorf("rewind: %w", postgres.ErrVain)
	}
	p.pid = false
	p.files = maps.Clone(up.files)
	// What is there now, or comes from the source.
	var lost []int
	for _, id := range before.Writes() {
		if !up.server.Last().Has(id) {
			lost = append(lost, id)
		}
	}
	p.destroys(lost)
	if takes > slowRewind {
		p.server.Disk.Forget(copied)
	}
	if err := c.flushSource(ctx, up); err != nil {
		return err
	}
	return c.lacksWAL(up)
}

// slowRewind is how long a rewind takes that copies the WAL of its source at its begin. The copy needs it up to where
// the source is in the end, and lacks what was written meanwhile. A shorter one copies what was written, flushed or
// not.
const slowRewind = 1500 * time.Millisecond

// lacksWAL says that the source has removed what the copy needs to become one.
func (c copies) lacksWAL(up *Pod) error {
	end, timeline := c.p.server.Disk.Position()
	if c.p.Short() && up.server.Removed(timeline, end.End) > 0 {
		return errGone
	}
	return nil
}

// flushSource waits until the source has flushed all that it had.
func (c copies) flushSource(ctx context.Context, up *Pod) error {
	if c.p.g.flaw.Unflushed {
		return nil
	}
	start, reached := up.process.start, up.server.Last().End
	over := func() bool {
		return !up.server.Running() || up.process.start != start || up.server.Flushed() >= reached
	}
	if err := c.p.wait(ctx, 30*time.Second, over); err != nil {
		return err
	}
	if !up.server.Running() || up.process.start != start || up.server.Flushed() < reached {
		return errAway
	}
	return nil
}
