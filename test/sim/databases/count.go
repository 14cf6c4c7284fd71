package databases

import (
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/pgmodel"
)

// Short says that the copy was rewound and lacks what makes it whole: nobody gets anything from it before it has that.
func (p *Pod) Short() bool {
	if p.server.Disk == nil || p.server.Running() && p.server.Mode != pgmodel.Starting {
		return false
	}
	end, _ := p.server.Disk.Position()
	return end.End < p.server.Disk.Control.Minimum
}

// others are the members of a record, but for one, whose copies are whole.
func (g *Group) others(but int, record wire.LeaseRecord) []*Pod {
	var found []*Pod
	for _, p := range g.pods {
		member := wire.Member{Name: p.name, Incarnation: p.Incarnation()}
		if p.index != but && p.Data() == tenure.DataWhole && !p.Short() && record.Has(member) {
			found = append(found, p)
		}
	}
	return found
}

// Fewest is the write that the fewest other members have stored, of those that count, and how many have; 0 if none of
// them counts.
func (g *Group) Fewest(but int, of []int, record wire.LeaseRecord, counts map[int]bool) (id, copies int) {
	stored := map[int]int{}
	for _, p := range g.others(but, record) {
		for _, each := range p.Stored() {
			stored[each]++
		}
	}
	for _, each := range of {
		if counts[each] && (id == 0 || stored[each] < copies) {
			id, copies = each, stored[each]
		}
	}
	return id, copies
}

// Lacking names another member whose copy has a write and is short, empty if there is none.
func (g *Group) Lacking(but, id int, record wire.LeaseRecord) (name string) {
	for _, p := range g.pods {
		member := wire.Member{Name: p.name, Incarnation: p.Incarnation()}
		short := p.Data() == tenure.DataWhole && p.Short()
		if p.index != but && short && record.Has(member) && slices.Contains(p.Stored(), id) {
			name = p.name
		}
	}
	return name
}

// Takes names another member that lives and reaches the primary with this number, empty if there is none.
func (g *Group) Takes(but, primary int, record wire.LeaseRecord) (name string) {
	for _, p := range g.others(but, record) {
		if p.index != primary && p.Facts().Processes && g.w.Connected(primary, p.index) {
			name = p.name
		}
	}
	return name
}
