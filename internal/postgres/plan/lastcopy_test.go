package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/invariant"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// stuck is a replica whose upstream does not have the WAL that it needs, in a database of so many members that each
// write is on w of. The last member leads, and nobody streams.
func stuck(members, self, w int, end tenure.Position) postgres.Snapshot {
	s := running()
	following(&s)
	s.Standing.Members = nil
	for number := 1; number <= members; number++ {
		s.Standing.Members = append(s.Standing.Members, copyOf(number))
	}
	s.Instance, s.Volume.Record.Incarnation = copyOf(self).Name, copyOf(self).Incarnation
	s.Standing.W, s.Standing.Upstream = w, copyOf(members)
	told(&s)
	s.Data.End = &end
	s.Positions = postgres.Positions{Of: s.Standing.Upstream, Term: s.Standing.Term, LSN: 1 << 30, At: s.Now}
	s.Process.Lost, s.Process.LostAtStart = true, true
	return s
}

func copyOf(number int) wire.Member {
	return wire.Member{Name: fmt.Sprintf("cities-%d", number), Incarnation: fmt.Sprintf("i%d", number)}
}

func givesUp(s postgres.Snapshot) bool {
	discard := postgres.Plan{Actions: []postgres.Action{postgres.BeginDiscard{}}}
	return len(invariant.Check(s, discard)) == 0
}

// Which word of another copy counts for one that is to be given up.
func TestWhoCountsForACopyThatGivesWay(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*tenure.Place)
		want   bool
	}{
		"as far, with a later name": {func(*tenure.Place) {}, true},
		"further":                   {func(p *tenure.Place) { p.Position.LSN = 150 }, true},
		"on the primary's own timeline": {
			func(p *tenure.Place) { p.Position = tenure.Position{Timeline: 2, LSN: 300} }, true,
		},
		"less far":                       {func(p *tenure.Place) { p.Position.LSN = 99 }, false},
		"beyond the fork":                {func(p *tenure.Place) { p.Position.LSN = 201 }, false},
		"on a timeline of nobody":        {func(p *tenure.Place) { p.Position.Timeline = 3 }, false},
		"knows of an earlier term alone": {func(p *tenure.Place) { p.Term = 0 }, false},
		"cannot lead":                    {func(p *tenure.Place) { p.CannotLead = true }, false},
		"another copy":                   {func(p *tenure.Place) { p.Member.Incarnation = "i9" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			place := tenure.Place{Member: copyOf(2), Position: tenure.Position{Timeline: 1, LSN: 100}, Term: 1}
			test.change(&place)
			s := stuck(3, 1, 2, tenure.Position{Timeline: 1, LSN: 100})
			s.Places = []tenure.Place{place}
			if got := givesUp(s); got != test.want {
				t.Errorf("given up: %t, want %t", got, test.want)
			}
			if got := s.AsFar(copyOf(2)); got != test.want {
				t.Errorf("as far: %t, want %t", got, test.want)
			}
			s.Positions.At = s.Now.Add(-6 * time.Second)
			if givesUp(s) {
				t.Error("given up by an old answer of the primary")
			}
		})
	}
}

// However late the words of others are, and whoever decides at the same time: after all that give way there are as many
// whole copies as a write quorum and an election need, and each of them has what those had.
func TestCopiesThatGiveWayLeaveEnough(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	most := 0
	for round := range 3000 {
		members := 3 + random.IntN(5)
		w := 2 + random.IntN(members-2)
		ends := make([]uint64, members)
		for number := range ends {
			ends[number] = 100 + random.Uint64N(4)
		}
		var gone []int
		for number := range members - 1 {
			s := stuck(members, number+1, w, tenure.Position{Timeline: 1, LSN: ends[number]})
			for other := range members - 1 {
				if other == number || random.IntN(8) == 0 {
					continue
				}
				// A word of before tells at most what is so now, also of a copy that is given up by now.
				late := ends[other] - random.Uint64N(2)
				s.Places = append(s.Places, tenure.Place{
					Member: copyOf(other + 1), Position: tenure.Position{Timeline: 1, LSN: late}, Term: s.Standing.Term,
				})
			}
			if givesUp(s) {
				gone = append(gone, number)
			}
		}
		most = max(most, len(gone))
		for _, number := range gone {
			have := 1 // The primary.
			for other := range members - 1 {
				if !slices.Contains(gone, other) && ends[other] >= ends[number] {
					have++
				}
			}
			if have < w || have < members-w+1 {
				t.Fatalf("round %d: %v of %d copies at %v are given up, and %d others have what %d had, of %d", round, gone,
					members, ends, have, number, w)
			}
		}
	}
	if most < 2 {
		t.Error("no two copies have ever given way at the same time")
	}
}
