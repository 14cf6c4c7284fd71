//go:build cluster

package controller_test

import (
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server/session"
	"meridian.dev/meridian/internal/tenure"
)

// TestTheSlotOfAnAbsentMemberHoldsNoRows takes the xmin from the slot of a replica that is away, and keeps its WAL.
func TestTheSlotOfAnAbsentMemberHoldsNoRows(t *testing.T) {
	_, one, two := pair(t)
	slot := render.Slot(two.member())
	state := func(what string) string {
		return one.super("select " + what + " from pg_replication_slots where slot_name = '" + slot + "'")
	}
	one.await("an xmin by the feedback of the replica", func(tenure.Engine) bool {
		return state("xmin is not null") == "true"
	})
	two.stop()
	one.await("a slot that nobody uses", func(tenure.Engine) bool { return state("active") == "false" })
	one.flood(48)
	one.super("checkpoint")
	place := state("restart_lsn::text")
	if state("xmin is not null") != "true" {
		t.Fatal("the slot has lost its xmin by itself: this test shows nothing")
	}

	link := &session.Link{Folder: one.path("run"), Port: testPort}
	defer link.Close()
	release := postgres.KeepPlaces{Slots: []string{slot}, Release: []string{slot}}
	for range 2 {
		must(t, link.KeepPlaces(t.Context(), release))
		if state("xmin is null") != "true" || state("restart_lsn::text") != place {
			t.Errorf("xmin %s, WAL from %s, and was from %s", state("xmin::text"), state("restart_lsn::text"), place)
		}
	}
	if got := one.super("select count(*) from pg_replication_slots"); got != "1" {
		t.Errorf("%s slots are left", got)
	}
}
