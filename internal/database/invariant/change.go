package invariant

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// restartsOneAtATime looks at what every instance says of itself: a server that works is stopped only while all the
// others work, and never two in one plan. One that cannot run stops nobody. A replica that does not stream may be
// stopped beside others that do not either, unless one of these has the change already.
func restartsOneAtATime(s database.Snapshot, plan database.Plan, action database.Action) bool {
	target, found := restarted(s, action)
	if !found {
		return !database.Does[database.ReplacePod](action) && !database.Does[database.RestartServer](action)
	}
	if !runs(target) {
		return true
	}
	for _, other := range plan.Actions {
		if another, stops := restarted(s, other); stops && another.Name != target.Name && runs(another) {
			return false
		}
	}
	for _, name := range plan.Design.Names() {
		other, _ := s.Instance(name)
		tried := other.Pod == nil || other.Pod.Template == render.Template(plan.Design, name) &&
			len(other.Report.PendingRestart) == 0 && !nodeTooSmall(other.Pod)
		leads := name == s.Lease.Holder && other.Report.Role == string(wire.RolePrimary)
		excused := stoodStill(s, target) && (leads || stoodStill(s, other) && !tried)
		if name != target.Name && !(other.Up() && s.Healthy(other)) && !excused {
			return false
		}
	}
	return true
}

// nodeTooSmall says that a pod cannot have the size that is asked for where it is: its template does not tell.
func nodeTooSmall(pod *database.Pod) bool {
	return pod.Resize == database.PodResizeInfeasible || pod.SizeTrial != nil && pod.SizeTrial.NodeTooSmall
}

// stoodStill says that an instance that answers has been a replica without a stream for a while.
func stoodStill(s database.Snapshot, instance database.Instance) bool {
	return instance.Pod != nil && !instance.Pod.Ready && instance.Pod.UnreadySince.Before(s.Now.Add(-time.Minute)) &&
		instance.Report.Reachable && !instance.Report.Streams && instance.Name != s.Lease.Holder
}

// restarted is the instance that an action stops.
func restarted(s database.Snapshot, action database.Action) (database.Instance, bool) {
	var stops func(database.Instance) bool
	switch do := action.Do.(type) {
	case database.ReplacePod:
		stops = func(instance database.Instance) bool { return instance.Pod.UID == action.UID }
	case database.RestartServer:
		stops = func(instance database.Instance) bool { return instance.Name == do.Target }
	default:
		return database.Instance{}, false
	}
	for _, instance := range s.Instances {
		if instance.Pod != nil && stops(instance) {
			return instance, true
		}
	}
	return database.Instance{}, false
}

// runs says that PostgreSQL may run in the pod of an instance.
func runs(instance database.Instance) bool {
	failing := instance.Report.Reachable && (instance.Report.State == string(wire.StateFailed) ||
		instance.Report.Reason == string(wire.ReasonServerFailing))
	return instance.Pod != nil && instance.Pod.Stuck == "" && !failing
}

// restartsPrimaryLast lets the pod of a working primary be replaced only if there is nobody to hand over to.
func restartsPrimaryLast(s database.Snapshot, plan database.Plan, action database.Action) bool {
	target, found := restarted(s, action)
	if !database.Does[database.ReplacePod](action) || !found || target.Name != s.Lease.Holder || !runs(target) {
		return true
	}
	return len(plan.Design.Instances) == 1
}

// spreadsNoHarm lets a template reach an instance that works only one at a time, and none while it has done harm.
func spreadsNoHarm(s database.Snapshot, plan database.Plan, action database.Action) bool {
	if !changesTemplate(s, plan, action) || s.Spec.Hibernated {
		return true
	}
	instance, _ := s.Instance(action.Name)
	if instance.Pod != nil && !runs(instance) {
		return true
	}
	others := 0
	for _, other := range plan.Actions {
		one, _ := s.Instance(other.Name)
		if changesTemplate(s, plan, other) && one.Pod != nil && !one.Pod.Deleting && runs(one) {
			others++
		}
	}
	for _, name := range plan.Design.Names() {
		other, _ := s.Instance(name)
		tried := other.Pod != nil && other.Pod.Template == render.Template(plan.Design, name)
		if tried && !runs(other) {
			return false
		}
	}
	return others <= 1
}

func changesTemplate(s database.Snapshot, plan database.Plan, action database.Action) bool {
	if update, updates := action.Do.(database.Update); !updates || update.Repair || action.Kind != database.KindSet {
		return false
	}
	instance, found := s.Instance(action.Name)
	return found && instance.Set != nil && instance.Set.Template != render.Template(plan.Design, action.Name)
}

// countsFirst finds a working instance that is stopped for a change that no other process of the operator would know
// to have begun.
func countsFirst(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if database.Does[database.BeginRoll](action) {
		return s.Fleet.Held == "" && !s.Settings.Rolling
	}
	target, found := restarted(s, action)
	if ask, asks := action.Do.(database.SwitchOver); asks && ask.For == database.ForRestart {
		target, found = s.Instance(action.Name)
	}
	return !found || !runs(target) || s.Settings.Rolling
}

// restartsForTheUser finds restarts that nobody has asked for: a new version of Meridian is no reason, but in the time
// that the user has named for it.
func restartsForTheUser(s database.Snapshot, plan database.Plan, action database.Action) bool {
	target, found := restarted(s, action)
	if ask, asks := action.Do.(database.SwitchOver); asks && ask.For == database.ForRestart {
		target, found = s.Instance(action.Name)
	}
	if !found || !runs(target) {
		return true
	}
	if database.Does[database.RestartServer](action) {
		return len(target.Report.PendingRestart) > 0
	}
	if nodeTooSmall(target.Pod) {
		return true
	}
	another := target.Pod.Template != render.Template(plan.Design, target.Name)
	asked := !render.SameWish(s.Spec, target.Pod.Wish) || s.Spec.Restart != "" && s.Spec.Restart != target.Pod.Restart
	return another && (asked || s.Window.Open && s.Spec.Maintenance != nil)
}

// stopsPrimaryLast has the primary of a hibernated database stop after all others, and nobody without that word.
func stopsPrimaryLast(s database.Snapshot, plan database.Plan, action database.Action) bool {
	writes := database.Does[database.Create](action) || database.Does[database.Update](action)
	if action.Kind != database.KindSet || !writes {
		return true
	}
	at := slices.IndexFunc(plan.Design.Instances, func(wanted database.InstanceDesign) bool {
		return wanted.Name == action.Name
	})
	if at < 0 || !plan.Design.Instances[at].Stopped {
		return true
	}
	others := slices.ContainsFunc(s.Instances, func(other database.Instance) bool {
		return other.Name != action.Name && other.Pod != nil
	})
	return s.Spec.Hibernated && (action.Name != s.Lease.Holder || !others)
}

// triesFirst touches no pod and no template that the API server would not take.
func triesFirst(s database.Snapshot, plan database.Plan, action database.Action) bool {
	refused := s.Trial != nil && s.Trial.Refusal != ""
	return !refused || !database.Does[database.ReplacePod](action) && !changesTemplate(s, plan, action)
}

// shrinksNoBuffers has a container shrink only when its server was started for the smaller size.
func shrinksNoBuffers(s database.Snapshot, _ database.Plan, action database.Action) bool {
	resize, resizes := action.Do.(database.ResizePod)
	if !resizes {
		return true
	}
	for _, instance := range s.Instances {
		if instance.Pod == nil || instance.Pod.UID != action.UID {
			continue
		}
		shrinks := resize.Size.Memory.Cmp(instance.Pod.Memory) < 0
		return !shrinks || instance.Report.Reachable && len(instance.Report.PendingRestart) == 0
	}
	return false
}

func rotatesOnce(s database.Snapshot, _ database.Plan, action database.Action) bool {
	switch do := action.Do.(type) {
	case database.BeginLogin:
		wish := s.Spec.Rotate != nil && s.Spec.Rotate.Password != "" && s.Spec.Rotate.Password == do.Token
		return wish && do.Token != s.Credentials.Token && (s.Credentials.Began.IsZero() || !s.Credentials.Done.IsZero())
	case database.StoreCertificates:
		wish := s.Spec.Rotate != nil && s.Spec.Rotate.Certificates == do.Token
		begun := s.Certificates.Rotation.Token == do.Token && s.Certificates.Rotation.Done.IsZero()
		wanted := s.Certificates.Issuing
		if do.Issuer && (wanted.Problem != "" || len(wanted.Change) == 0) {
			return false
		}
		return do.Token == "" || begun || wish && do.Token != s.Certificates.Rotation.Token
	default:
		return true
	}
}

func publishesWhatIsKnown(s database.Snapshot, _ database.Plan, action database.Action) bool {
	move, moves := action.Do.(database.MoveLogin)
	if !moves {
		return true
	}
	holder, _ := s.Instance(s.Lease.Holder)
	if !s.Serves(holder) || move.Number == 0 || move.Number != s.Credentials.Number {
		return false
	}
	return !slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return (instance.Up() || instance.Name == holder.Name) && instance.Report.Rotation != move.Number
	})
}

func signsWhatIsKnown(s database.Snapshot, _ database.Plan, action database.Action) bool {
	store, stores := action.Do.(database.StoreCertificates)
	renews := store.Token != "" && s.Certificates.Rotation.Token == store.Token
	if !stores || !renews && !store.Issuer {
		return true
	}
	return s.Certificates.Untold() == "" && !slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return instance.Up() && instance.Report.Certificate != s.CertificateOf(instance).Identity
	})
}

// growsWithinLimit looks at what a claim would ask for, wherever that comes from.
func growsWithinLimit(s database.Snapshot, plan database.Plan, action database.Action) bool {
	sizes := database.Does[database.Grow](action) || database.Does[database.Create](action)
	if action.Kind != database.KindClaim || !sizes {
		return true
	}
	_, log := database.ClaimOwner(action.Name)
	allowed := s.Spec.Storage.Size
	switch auto := s.Spec.Storage.AutoGrow; {
	case log && s.Spec.Storage.WALSize == nil:
		return false
	case log:
		allowed = *s.Spec.Storage.WALSize
	case auto != nil && auto.Limit.Cmp(allowed) > 0:
		allowed = auto.Limit
	}
	for _, instance := range s.Instances {
		claim := instance.Claim
		if log {
			claim = instance.LogClaim
		}
		if claim != nil && claim.Requested.Cmp(allowed) > 0 {
			allowed = claim.Requested
		}
	}
	wanted, found := plan.Design.ClaimSize(action.Name)
	return !found || wanted.Cmp(allowed) <= 0
}

// growsOneStep lets a claim catch up with the spec or with another claim at any time. Beyond all of these it goes only
// when no volume of an instance that answers is on its way. The log does not grow by itself: growsWithinLimit has said
// so.
func growsOneStep(s database.Snapshot, plan database.Plan, action database.Action) bool {
	wanted, found := plan.Design.ClaimSize(action.Name)
	_, log := database.ClaimOwner(action.Name)
	if !database.Does[database.Grow](action) || log || !found ||
		wanted.Cmp(s.Spec.Storage.Size) <= 0 {
		return true
	}
	moving := false
	for _, instance := range s.Instances {
		if instance.Claim == nil {
			continue
		}
		if instance.Claim.Requested.Cmp(wanted) >= 0 {
			return true
		}
		resize := instance.Claim.Resize
		moving = moving || instance.Report.Reachable &&
			instance.Claim.Message == "" &&
			(resize == database.ResizeRunning || resize == database.ResizeFileSystem)
	}
	return !moving
}

// claimFor is the claim as it was seen.
func claimFor(s database.Snapshot, claim string) *database.Claim {
	for _, instance := range s.Instances {
		switch claim {
		case instance.Name:
			return instance.Claim
		case database.LogClaimName(instance.Name):
			return instance.LogClaim
		}
	}
	return nil
}

// partedFrom says that every claim with a note of a parting names this lease.
func partedFrom(s database.Snapshot, lease string) bool {
	found := false
	for _, instance := range s.Instances {
		for _, claim := range []*database.Claim{instance.Claim, instance.LogClaim} {
			if claim != nil && claim.Parting != nil {
				found = true
				if claim.Parting.LeaseUID != lease {
					return false
				}
			}
		}
	}
	return found
}

func adoptsByTheWord(s database.Snapshot, _ database.Plan, action database.Action) bool {
	adopt, adopts := action.Do.(database.AdoptClaim)
	if !adopts {
		return true
	}
	word, begun := s.Spec.Storage.Adopt, s.Settings.UID != "" || s.Lease.UID != "" && s.Lease.Foreign == ""
	return word != "" && !s.Deleting && !s.Spec.Paused && (!begun || adopt.Origin == s.Origin) &&
		slices.ContainsFunc(s.Kept, func(claim database.Kept) bool {
			return claim.UID == action.UID && claim.Name == action.Name && claim.Owner == adopt.Owner &&
				claim.Origin == adopt.Origin && !claim.Deleting &&
				(claim.Owner == word || claim.Origin == word || claim.Origin == s.Origin || sameData(s, claim.Origin))
		})
}

// sameData says that the database that the spec names has left a claim with this data.
func sameData(s database.Snapshot, origin string) bool {
	return slices.ContainsFunc(s.Kept, func(claim database.Kept) bool {
		return claim.Owner == s.Spec.Storage.Adopt && claim.Origin == origin
	})
}

func partsWithANote(s database.Snapshot, plan database.Plan, action database.Action) bool {
	known := s.Record.Initialised && s.Lease.Problem == ""
	if !database.Does[database.FreeLease](action) || !known {
		return true
	}
	copies := plan.Design.Names()
	for _, member := range s.Lease.Members {
		copies = append(copies, member.Name)
	}
	agreed := !s.LeaseLost() && !s.Lease.Empty()
	return !slices.ContainsFunc(copies, func(name string) bool {
		instance, _ := s.Instance(name)
		claim := instance.Claim
		return claim != nil && !claim.Deleting &&
			(claim.Parting == nil || agreed && claim.Parting.LeaseUID != s.Lease.UID)
	})
}

// changesWhatWasSeen keeps what a claim tells of its data: whoever has not seen that would write it away.
func changesWhatWasSeen(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.Update](action) || action.Kind != database.KindClaim {
		return true
	}
	claim := claimFor(s, action.Name)
	return claim != nil && claim.UID == action.UID && claim.ResourceVersion == action.ResourceVersion
}
