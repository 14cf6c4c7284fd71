package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
)

func TestHistory(t *testing.T) {
	history, err := postgres.ParseHistory(5, "1\t0/3000100\tno recovery target specified\n\n# note\n3\t0/5000000\tx\n")
	if err != nil {
		t.Fatal(err)
	}
	want := postgres.History{{Timeline: 1}, {Timeline: 3, Begin: 0x3000100}, {Timeline: 5, Begin: 0x5000000}}
	if diff := cmp.Diff(want, history); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// The record that ends where a timeline begins is of the one before.
	for lsn, want := range map[uint64]int{
		1: 1, 0x3000100: 1, 0x3000101: 3, 0x5000000: 3, 0x5000001: 5, 1 << 40: 5,
	} {
		if got := history.At(lsn); got != want {
			t.Errorf("at %X: timeline %d, want %d", lsn, got, want)
		}
	}
	for position, want := range map[tenure.Position]bool{
		{Timeline: 1, LSN: 0x3000100}: true, {Timeline: 1, LSN: 0x3000101}: false, {Timeline: 3, LSN: 0x5000000}: true,
		{Timeline: 3, LSN: 0x5000001}: false, {Timeline: 5, LSN: 1 << 40}: true, {Timeline: 2, LSN: 1}: false,
		{Timeline: 6, LSN: 1}: false,
	} {
		if got := history.Holds(position); got != want {
			t.Errorf("%s: %t, want %t", position, got, want)
		}
	}
}

// A server that has gone over to timeline 2 and was promoted before it had the WAL up to where that begins writes such
// a history: what others have of timeline 1 beyond its own end is no part of it. PostgreSQL 15 and 17 let them in.
func TestHistoryOfAServerThatWasPromotedAstray(t *testing.T) {
	history, err := postgres.ParseHistory(3, "1\t0/4003988\tno recovery target specified\n\n2\t0/4000100\tx\n")
	if err != nil {
		t.Fatal(err)
	}
	for position, want := range map[tenure.Position]bool{
		{Timeline: 1, LSN: 0x4000100}: true, {Timeline: 1, LSN: 0x4000101}: false, {Timeline: 1, LSN: 0x4003988}: false,
		{Timeline: 2, LSN: 0x4003989}: false, {Timeline: 3, LSN: 0x4000200}: true,
	} {
		if got := history.Holds(position); got != want {
			t.Errorf("%s: %t, want %t", position, got, want)
		}
	}
	if got := history.At(0x4000101); got != 3 {
		t.Errorf("what follows is of timeline %d, want 3", got)
	}
}

// A placeholder takes a number, and is a part of nothing.
func TestPlaceholder(t *testing.T) {
	history, err := postgres.ParseHistory(3, "# taken\n")
	if err != nil || !history.Placeholder() || history.Has(1) {
		t.Errorf("%v, %v", history, err)
	}
	first, err := postgres.ParseHistory(1, "")
	if err != nil || first.Placeholder() {
		t.Errorf("%v, %v", first, err)
	}
	for _, text := range []string{"1\n", "x 0/1\n", "1 0-1\n"} {
		if _, err := postgres.ParseHistory(3, text); err == nil {
			t.Errorf("%q was understood", text)
		}
	}
}

// A server goes over to a timeline that begins later than its copy ends, and replays past that place if the next
// primary has more of the timeline before. Where it begins at the end of the copy, it is right that the next comes
// from it.
func TestHistoryFromWhichACopyStrays(t *testing.T) {
	lost := postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 400}}
	later := postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 400}, {Timeline: 3, Begin: 500}}
	taken := postgres.History{{Timeline: 2}}
	for _, each := range []struct {
		history postgres.History
		at      tenure.Position
		want    bool
	}{
		{lost, tenure.Position{Timeline: 1, LSN: 300}, true}, {lost, tenure.Position{Timeline: 1, LSN: 400}, false},
		{lost, tenure.Position{Timeline: 1, LSN: 450}, true}, {lost, tenure.Position{Timeline: 2, LSN: 450}, false},
		{later, tenure.Position{Timeline: 1, LSN: 400}, true}, {later, tenure.Position{Timeline: 2, LSN: 500}, false},
		{later, tenure.Position{Timeline: 2, LSN: 550}, true}, {taken, tenure.Position{Timeline: 1, LSN: 300}, false},
	} {
		if got := each.history.Strays(each.at); got != each.want {
			t.Errorf("%v of a copy at %s: %t, want %t", each.history, each.at, got, each.want)
		}
	}
}
