package plan

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// heirPatience is how long a server that yields waits for a member that has everything: longer than a link takes that
// has broken and comes up again, and than each replica is silent, and much shorter than a pod is given to end.
const heirPatience = 3 * time.Second

// yieldThePlace keeps applications out, and ends the server when a member has confirmed the last write. What only this
// server has is lost with it: if it ended before, and the link with it, nobody could have everything.
func yieldThePlace(s redis.Snapshot, plan *draft) bool {
	if s.Standing.Role != tenure.RoleYield {
		return false
	}
	hold := redis.Hold{Reason: wire.ReasonSwitchover, Detail: "another instance becomes the primary"}
	switch waited := s.Now.Sub(s.Copy.Yielded); {
	case !s.Process.Running:
	case s.Copy.Yielded.IsZero():
		plan.do(redis.YieldServer{Why: "the place is being given away"})
	case !s.Heirs() || s.Copy.Term == 0:
		plan.do(redis.EndServer{Why: "there is nobody who could have everything"})
	case s.Server.Reachable && s.Heard():
		plan.do(redis.EndServer{Why: "another member has everything"})
	case waited >= heirPatience:
		plan.do(redis.EndServer{Why: "no member has confirmed the last write in time"})
	default:
		if s.Server.Reachable {
			plan.do(redis.HearReplicas{Why: "one of them must have everything before the server ends"})
		}
		hold.Detail, hold.Recheck = "a replica confirms the last write before the server ends", 10*time.Millisecond
	}
	plan.wait(hold)
	return true
}

// stopAStray ends a server whose data is of no use to what the instance is told to be: one that has led may have what
// no other has, and must not pass it on; one that was begun for a dataset that did not come to be has nothing.
func stopAStray(s redis.Snapshot, plan *draft) bool {
	if !s.Process.Running {
		return false
	}
	standing, copied := s.Standing, s.Copy
	leads := standing.Role == tenure.RoleLead || standing.Role == tenure.RoleYield
	var why redis.Why
	switch {
	case copied.Term > 0 && !(leads && standing.Term == copied.Term):
		why = "the server has led, and is not the primary any more"
	case standing.Role == tenure.RoleBegin && s.Process.Incarnation != standing.Incarnation:
		why = "another copy is to be begun, an empty one"
	case copied.Begun && copied.Term == 0 && standing.Role != tenure.RoleBegin && !leads && standing.Role != "":
		why = "the server was begun as the first copy, and another one is the first"
	default:
		return false
	}
	plan.do(redis.StopServer{Why: why})
	return true
}

// serverFor says whether a server is needed, and with which id. A copy that is gone is not replaced by an empty one
// under the same standing: the agents agree on another primary first.
func serverFor(s redis.Snapshot) (incarnation string, needed bool) {
	switch s.Standing.Role {
	case tenure.RoleBegin:
		return s.Standing.Incarnation, true
	case tenure.RoleFollow:
		return "", true
	case tenure.RoleIdle, tenure.RoleCatchUp, tenure.RoleLead, tenure.RoleYield:
	}
	return "", false
}

// linkPatience is how long a link may take to come up, or to come up again, before the upstream is looked for
// elsewhere. The server tries by itself meanwhile. When a primary hands over, the link breaks moments before another
// one leads: a look at the lease and at names would keep that one from it.
const linkPatience = 3 * time.Second

func followTheUpstream(s redis.Snapshot, plan *draft) bool {
	standing := s.Standing
	if standing.Role != tenure.RoleFollow || standing.Serial <= s.Fenced || s.Copy.Term > 0 || s.NoPassword != "" {
		return false
	}
	if s.Follows() && s.Server.Up {
		tellOfWhatIsMissing(s, plan)
		return false
	}
	// What takes effect at a start only comes first: an empty server has nothing to lose by another one.
	if s.Copy.Followed == (redis.Followed{}) && s.Copy.Attempts == 0 && !s.Carried() {
		return false
	}
	waited := s.Now.Sub(s.Copy.Asked)
	down := min(waited, s.Now.Sub(s.Copy.Fresh))
	if s.Follows() && (s.Server.Syncing || down < linkPatience) {
		tellOfTheLink(s, plan)
		return false
	}
	if !s.Follows() && s.Copy.Followed.Upstream == standing.Upstream && waited < time.Second && s.Copy.Attempts > 0 {
		tellOfTheLink(s, plan)
		return false
	}
	follow := redis.Follow{
		Why: "it holds the lease", Upstream: standing.Upstream, Address: standing.UpstreamAddress, Whole: s.Copy.Whole,
		// The other one may not have seen the password that is mounted here, and knows another that still counts.
		Turn: s.Copy.Attempts / 2 % max(s.Turns, 1),
	}
	if s.Follows() {
		follow.Why = "the link does not come up"
		if s.Copy.Attempts%2 == 1 {
			follow.Address = "" // A pod that has moved is found by its name.
		}
	}
	plan.do(follow)
	return false
}

// tellOfWhatIsMissing is for a link that is up: a replica that is behind is not read.
func tellOfWhatIsMissing(s redis.Snapshot, plan *draft) {
	if !s.Copy.Whole {
		plan.wait(redis.Hold{Reason: wire.ReasonCopying, Detail: fmt.Sprintf(
			"it lacks what %s has written, and is read when that has come", s.Standing.Upstream.Name)})
	}
}

func tellOfTheLink(s redis.Snapshot, plan *draft) {
	if s.Server.Syncing {
		plan.wait(redis.Hold{
			Reason: wire.ReasonCopying, Detail: "the data of " + s.Standing.Upstream.Name + " is being copied",
		})
		return
	}
	plan.wait(redis.Hold{
		Reason: wire.ReasonUpstreamMissing, Detail: s.Standing.Upstream.Name + " does not send its writes yet",
		Recheck: 100 * time.Millisecond,
	})
}

func detachFromAll(s redis.Snapshot, plan *draft) bool {
	idle := s.Standing.Role == tenure.RoleIdle || s.Standing.Role == tenure.RoleCatchUp
	if idle && s.Server.Replica && s.Server.Host != "" {
		plan.do(redis.Detach{Why: "there is nobody to follow"})
	}
	return false
}

func leadAsTold(s redis.Snapshot, plan *draft) bool {
	standing := s.Standing
	if standing.Role != tenure.RoleLead || s.Leads() {
		return false
	}
	// What was never opened is opened with all of its settings in force; a replica that takes over has them, or gets them.
	if !s.Copy.MayLead(standing.SystemIdentifier) || s.Copy.Begun && !s.Carried() {
		plan.wait(redis.Hold{Reason: wire.ReasonPromoting, Detail: "this instance is about to become the primary"})
		return false
	}
	plan.do(redis.Lead{Why: "this instance holds the lease", Term: standing.Term, Timeline: standing.Timeline})
	return false
}

func admitReplicas(s redis.Snapshot, plan *draft) bool {
	if s.Leads() && !s.Server.Admits && s.NoPassword == "" {
		plan.do(redis.AdmitReplicas{Why: "other instances follow this one"})
	}
	return false
}

func flushOnce(s redis.Snapshot, plan *draft) bool {
	if s.Flush != "" && s.Flush != s.Emptied.ID && s.Flush != s.Standing.Emptied && s.Leads() && s.Server.Open {
		plan.do(redis.Flush{Why: "somebody has asked for an empty cache", ID: s.Flush})
	}
	return false
}
