package databases

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// others are the members of a record, but for one, whose copies are whole.
func (g *Group) others(but int, record wire.LeaseRecord) []*Pod {
	var found []*Pod
	for _, p := range g.pods {
		member := wire.Member{Name: p.name, Incarnation: p.Incarnation()}
		if p.index != but && p.Data() == tenure.DataWhole && record.Has(member) {
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

// Takes names another member that lives and reaches the primary with this number, empty if there is none.
func (g *Group) Takes(but, primary int, record wire.LeaseRecord) (name string) {
	for _, p := range g.others(but, record) {
		if p.index != primary && p.Facts().Processes && g.w.Connected(primary, p.index) {
			name = p.name
		}
	}
	return name
}
