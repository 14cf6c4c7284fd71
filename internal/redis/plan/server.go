package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

func stopWhenTold(s redis.Snapshot, plan *draft) bool {
	switch {
	case !s.Stopping:
		return false
	case s.Process.Running:
		plan.do(redis.StopServer{Why: "the pod was told to end"})
	case s.Process.Leftover > 0:
		plan.do(redis.KillLeftover{Why: "the pod was told to end"})
	}
	return true
}

func killWhatTheServerLeft(s redis.Snapshot, plan *draft) bool {
	if s.Process.Running || s.Process.Leftover == 0 {
		return false
	}
	plan.do(redis.KillLeftover{Why: "the server has ended and left processes behind"})
	return true
}

func waitForSettings(s redis.Snapshot, plan *draft) bool {
	if s.Settings.Problem != "" {
		plan.wait(redis.Hold{
			Reason: wire.ReasonSettingsUnreadable,
			Detail: "the mounted settings cannot be used, and those of before stay: " + s.Settings.Problem,
		})
	}
	return s.Settings.Wanted == nil
}

// installTheCertificate keeps the copy that is there when the mounted one cannot be used: a server with an old
// certificate is better than none.
func installTheCertificate(s redis.Snapshot, plan *draft) bool {
	certificate := s.Certificate
	switch {
	case certificate.Mounted == "":
		plan.wait(redis.Hold{
			Reason: wire.ReasonCertificateMissing,
			Detail: "the mounted certificate cannot be used: " + certificate.Problem,
		})
		return certificate.Installed == ""
	case certificate.Mounted != certificate.Installed:
		plan.do(redis.InstallCertificate{
			Why: "the mounted certificate is not the one that the server reads", Identity: certificate.Mounted,
		})
		// What it is for follows in the next pass, which sees the copy.
		return true
	}
	return false
}

// Pauses between starts of a server that ends by itself: the first is immediate, each next twice as long.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

func startTheServer(s redis.Snapshot, plan *draft) bool {
	if s.Process.Running {
		return false
	}
	incarnation, needed := serverFor(s)
	if !needed {
		plan.wait(redis.Hold{
			Reason: wire.ReasonWaitingForStanding, Detail: "there is no copy here, and nobody to take one from",
		})
		return true
	}
	left := pause(s.Process.Failures) - s.Now.Sub(s.Process.Ended)
	if s.Process.Failures > 1 && left > 0 {
		words := s.Process.LastWords
		if words == "" {
			words = "its log tells more"
		}
		plan.wait(redis.Hold{
			Reason:  wire.ReasonServerFailing,
			Detail:  fmt.Sprintf("the server ends again and again soon after its start (%s): %s", s.Process.Exit, words),
			Recheck: left,
		})
		return true
	}
	wanted := s.Settings.Wanted
	why := redis.Why("the server is wanted and does not run")
	if s.Process.Exit != "" {
		why = redis.Why("the server has ended: " + s.Process.Exit)
	}
	plan.do(redis.StartServer{
		Why: why, Incarnation: incarnation, Engine: wanted.Engine, Memory: s.Allowed(), Policy: wanted.EvictionPolicy,
		Fixed: s.AtStart(), Certificate: s.Certificate.Installed,
	})
	return true
}

func pause(failures int) time.Duration {
	length := firstPause
	for ; failures > 2 && length < longestPause; failures-- {
		length *= 2
	}
	return min(length, longestPause)
}

func waitForTheServer(s redis.Snapshot, plan *draft) bool {
	if s.Server.Reachable {
		return false
	}
	plan.wait(redis.Hold{
		Reason: wire.ReasonServerRecovering, Detail: "the server does not answer yet: " + s.Server.Problem,
	})
	return true
}

// loadTheCertificate goes by what the server was told to read and by what it shows: the first tells of a new bundle of
// authorities, the second is the truth about the leaf.
func loadTheCertificate(s redis.Snapshot, plan *draft) bool {
	shows := s.Server.Presented == "" || s.Server.Presented == s.Certificate.Leaf
	if s.Server.Loaded != s.Certificate.Installed || !shows {
		plan.do(redis.LoadCertificate{
			Why: "the server has not read the present certificate", Identity: s.Certificate.Installed,
		})
	}
	return false
}

func setTheMemory(s redis.Snapshot, plan *draft) bool {
	if allowed := s.Allowed(); s.Server.MaxMemory != allowed {
		plan.do(redis.SetMemory{
			Why: redis.Why(fmt.Sprintf("%d bytes are in force", s.Server.MaxMemory)), Bytes: allowed,
		})
	}
	return false
}

// boundWhatWaits follows the memory: what waits for a replica is beside the data in the container.
func boundWhatWaits(s redis.Snapshot, plan *draft) bool {
	if bytes := redis.Waiting(s.Allowed()); s.Server.Waiting != bytes {
		plan.do(redis.SetWaiting{
			Why:   redis.Why(fmt.Sprintf("%d bytes may wait for a replica, and the memory is another", s.Server.Waiting)),
			Bytes: bytes,
		})
	}
	return false
}

func setThePolicy(s redis.Snapshot, plan *draft) bool {
	if wanted := s.Settings.Wanted.EvictionPolicy; s.Server.Policy != wanted {
		plan.do(redis.SetPolicy{Why: redis.Why(s.Server.Policy + " is in force"), Policy: wanted})
	}
	return false
}

func setParameters(s redis.Snapshot, plan *draft) bool {
	for _, parameter := range s.Live() {
		plan.do(redis.SetParameter{Why: "it is wanted and not in force", Parameter: parameter})
	}
	return false
}

func resetParameters(s redis.Snapshot, plan *draft) bool {
	for _, name := range s.Surplus() {
		plan.do(redis.ResetParameter{Why: "it is not wanted any more", Name: name})
	}
	return false
}

func restartAClosedServer(s redis.Snapshot, plan *draft) bool {
	if s.Server.Open || !s.Carried() || s.Copy.Whole || s.Copy.Term > 0 || s.Server.Syncing {
		return false
	}
	if pending := s.Pending(); len(pending) > 0 {
		plan.do(redis.StopServer{Why: redis.Why("nobody was let in yet, and the server takes over " +
			strings.Join(pending, ", ") + " at its start only")})
		return true
	}
	return false
}

// openTheDoor waits until a pass has seen everything in force. A password that changes later is taken over at once.
func openTheDoor(s redis.Snapshot, plan *draft) bool {
	if s.NoPassword != "" {
		plan.wait(redis.Hold{
			Reason: wire.ReasonPasswordMissing, Detail: "the mounted password cannot be used: " + s.NoPassword,
		})
		return false
	}
	switch wanted := s.LetsIn(); {
	case s.Server.Open && !wanted && s.Standing.Role != tenure.RoleLead:
		plan.do(redis.CloseDoor{Why: "applications are not let in to an instance that has nothing to tell them"})
	case s.Server.Open && s.Server.Matches || !wanted && !s.Server.Open:
	case s.Server.Open:
		plan.do(redis.OpenDoor{Why: "what the application may log in with, or may do, has changed"})
	case s.Carried():
		plan.do(redis.OpenDoor{Why: "memory and settings are in force"})
	}
	return false
}

// leastLoose is how much memory is worth giving back: a server always has some in hand.
const leastLoose = 16 << 20

func returnMemory(s redis.Snapshot, plan *draft) bool {
	spare := wire.CacheLimit(s.Allowed()) >= wire.CacheNeeds(s.Server.Resident)
	if s.Server.MaxMemory == s.Allowed() && !spare && s.Server.Loose > max(leastLoose, s.Server.Resident/8) {
		plan.do(redis.ReturnMemory{Why: "the server takes more from the container than its data needs"})
	}
	return false
}

func tellOfMissingRoom(s redis.Snapshot, plan *draft) bool {
	if wanted := s.Settings.Wanted.Memory; s.Allowed() < wanted {
		plan.wait(redis.Hold{
			Reason: wire.ReasonMemoryLimited,
			Detail: fmt.Sprintf("the container has room for %d bytes of data, and %d are wanted: it has to grow first",
				s.Allowed(), wanted),
		})
	}
	return false
}

func tellOfRefusals(s redis.Snapshot, plan *draft) bool {
	if refusals := s.Refusals(); len(refusals) > 0 {
		slices.Sort(refusals)
		plan.wait(redis.Hold{
			Reason: wire.ReasonParametersRefused,
			Detail: "the server does not accept " + strings.Join(refusals, "; ") +
				": it runs without; change the value, or remove it",
		})
	}
	return false
}
