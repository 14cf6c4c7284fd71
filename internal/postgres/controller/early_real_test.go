//go:build cluster

package controller_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// A copy that has left an earlier timeline is made to fit a primary that has written no checkpoint of its own timeline
// yet. PostgreSQL 15 takes that primary to be on the timeline before, and what it makes of the copy never starts.
func TestARewindPastATimelineWithoutACheckpoint(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member()}
	_, err := two.fence()
	must(t, err)
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, tenure.Setting{}, members...)
	two.await("the first checkpoint", func(tenure.Engine) bool {
		return two.super("select timeline_id from pg_control_checkpoint()") == "2"
	})
	two.loop.Kill()
	two.obey(tenure.Standing{Role: tenure.RoleIdle})
	two.await("the end of the server", func(e tenure.Engine) bool { return !e.Processes })
	_, err = two.fence()
	must(t, err)
	two.await("a replica", func(e tenure.Engine) bool { return e.Processes && e.Flushed != nil })
	goOn := two.freezeCheckpointer()
	r.lead(two, 3, 3, tenure.Setting{}, members...)
	r.follow(one, two, 3, 3, members...)
	one.await("a rewind", func(tenure.Engine) bool { return one.logged("RecordRewound") })
	time.Sleep(time.Second)
	goOn()
	must(t, two.execute(20*time.Second, "insert into t values (3)"))
	one.streams()
	if one.logged("Discard") {
		t.Error("the copy was given up")
	}
}
