package invariant

import (
	"slices"
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
)

func deletesOnlyWhatMayGo(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.DeleteClaim](action) {
		return true
	}
	instance, log := database.ClaimOwner(action.Name)
	ours := slices.ContainsFunc(s.Instances, func(one database.Instance) bool {
		claim := one.Claim
		if log {
			claim = one.LogClaim
		}
		return one.Name == instance && claim != nil && claim.UID == action.UID
	})
	if !ours || s.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete || s.Orphaning {
		return false
	}
	return s.Deleting || isLeft(s, instance) && primaryWorks(s)
}

// isLeft says that nothing that was written down counts on an instance any more.
func isLeft(s database.Snapshot, instance string) bool {
	sound := s.Lease.UID != "" && s.Lease.UID == s.Settings.LeaseUID && s.Lease.Problem == "" && s.Lease.Foreign == ""
	named := slices.Contains(s.Settings.Instances, instance) || len(s.Settings.Instances) == 0
	member := slices.ContainsFunc(s.Lease.Members, func(member database.Member) bool { return member.Name == instance })
	return sound && !named && !member && s.Lease.Holder != instance
}

// primaryWorks says that a primary is known to have the data, if there ever was any.
func primaryWorks(s database.Snapshot) bool {
	if !s.Record.Initialised {
		return true
	}
	holder, _ := s.Instance(s.Lease.Holder)
	return s.Serves(holder)
}

func releasesOnlyWhenDone(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.Release](action) {
		return true
	}
	held := s.Lease.Guarded && s.Lease.Foreign == ""
	kept := s.Orphaning || s.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete
	return s.Deleting && !held && (kept || !slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return stays(instance.Claim) || stays(instance.LogClaim)
	}))
}

// stays says that a claim is there, and that nobody has deleted it.
func stays(claim *database.Claim) bool { return claim != nil && claim.UID != "" && !claim.Deleting }

func makesLeaseOnce(s database.Snapshot, _ database.Plan, action database.Action) bool {
	create, makes := action.Do.(database.CreateLease)
	if !makes {
		return true
	}
	if create.Succeeds != "" {
		return s.Lease.UID == "" && create.Succeeds == s.Settings.LeaseUID &&
			slices.Equal(create.Before, s.Settings.LostBefore)
	}
	awaited := s.Spec.Storage.Adopt != "" && slices.ContainsFunc(s.Kept, func(claim database.Kept) bool {
		return claim.Owner == s.Spec.Storage.Adopt || claim.Origin == s.Spec.Storage.Adopt
	})
	return !awaited && s.Lease.UID == "" && s.Settings.LeaseUID == "" && !s.Lease.Copy.Initialised &&
		!s.Settings.Copy.Initialised && !slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return instance.Claim != nil && instance.Claim.Copy.Initialised ||
			instance.LogClaim != nil && instance.LogClaim.Copy.Initialised
	})
}

func freesNoLivingLease(s database.Snapshot, _ database.Plan, action database.Action) bool {
	return !database.Does[database.FreeLease](action) || s.Deleting && s.Lease.Foreign == "" && action.UID == s.Lease.UID
}

func adoptsSuccessors(s database.Snapshot, _ database.Plan, action database.Action) bool {
	adopt, adopts := action.Do.(database.AdoptLease)
	return !adopts || adopt.Lease == s.Lease.UID && s.Lease.Problem == "" &&
		s.Lease.Foreign == "" && s.Lease.Copy.Initialised && slices.Contains(s.Lease.Before, s.Settings.LeaseUID)
}

func keepsToItsLease(s database.Snapshot, plan database.Plan, action database.Action) bool {
	writes := database.Does[database.Create](action) || database.Does[database.Update](action)
	if !writes || action.Kind != database.KindSettings {
		return true
	}
	named := plan.Design.LeaseUID
	return named != "" && (named == s.Settings.LeaseUID || s.Settings.LeaseUID == "" && named == s.Lease.UID ||
		s.Settings.UID == "" && s.Lease.UID == "" && partedFrom(s, named))
}

// changesRosterSafely looks at the two lists alone: whoever decided why does not matter.
func changesRosterSafely(s database.Snapshot, _ database.Plan, action database.Action) bool {
	set, sets := action.Do.(database.SetInstances)
	if !sets {
		return true
	}
	before, after := s.Settings.Instances, set.Instances
	var come, left []string
	for _, name := range after {
		if !slices.Contains(before, name) {
			come = append(come, name)
		}
	}
	for _, name := range before {
		if !slices.Contains(after, name) {
			left = append(left, name)
		}
	}
	// Whatever is lost, the number of instances is bounded: nothing is ever made without end.
	if len(come) > 0 && len(after) > 2*int(max(s.Spec.Instances, 1))+1 {
		return false
	}
	if len(after) == 0 || len(before) == 0 || len(left) > 1 || len(left) > 0 && len(come) > 0 {
		return false
	}
	return allNew(s, come) && mayLeave(s, left, after)
}

// allNew says that no name stands for anything that was there before.
func allNew(s database.Snapshot, names []string) bool {
	for _, name := range names {
		_, known := s.Instance(name)
		_, right := database.SerialOf(s.Name, name)
		counted := slices.ContainsFunc(s.Lease.Members, func(member database.Member) bool { return member.Name == name })
		if known || counted || !right {
			return false
		}
	}
	return true
}

// mayLeave says that those who stay are enough: as many as each write is kept on, or more than half of them if that is
// fewer, by what they say of themselves.
func mayLeave(s database.Snapshot, left, rest []string) bool {
	if len(left) == 0 || !s.Record.Initialised {
		return true
	}
	if left[0] == s.Lease.Holder || s.Lease.W < 1 || !primaryWorks(s) {
		return false
	}
	enough := 0
	for _, member := range s.Lease.Members {
		instance, _ := s.Instance(member.Name)
		if slices.Contains(rest, member.Name) && instance.Report.Reachable &&
			(member.Name == s.Lease.Holder || instance.Report.Streams) {
			enough++
		}
	}
	return enough >= min(s.Lease.W, len(rest)/2+1)
}

func removesNoCopy(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.DeleteSet](action) {
		return true
	}
	ours := slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return instance.Name == action.Name && instance.Set != nil && instance.Set.UID == action.UID
	})
	return ours && isLeft(s, action.Name)
}

func asksTheHolder(s database.Snapshot, plan database.Plan, action database.Action) bool {
	ask, asks := action.Do.(database.SwitchOver)
	if !asks {
		return true
	}
	asked := 0
	for _, other := range plan.Actions {
		if database.Does[database.SwitchOver](other) {
			asked++
		}
	}
	return asked == 1 && action.Name == s.Lease.Holder && ask.Target != action.Name && ask.Request != "" &&
		ask.Term == s.Lease.Term
}

func forcesOnlyTheLost(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.RemovePod](action) {
		return true
	}
	return slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return instance.Pod != nil && instance.Pod.UID == action.UID && instance.Pod.Deleting &&
			(instance.Node.Gone || instance.Node.OutOfService)
	})
}

func removesOnlySurplus(s database.Snapshot, _ database.Plan, action database.Action) bool {
	return !database.Does[database.Remove](action) ||
		action.Kind == database.KindPolicy && s.Spec.Network.Policy == v1alpha1.NetworkNone
}

func leavesOthersAlone(s database.Snapshot, _ database.Plan, _ database.Action) bool {
	return s.StampedBy == "" || s.Installation == "" || s.StampedBy == s.Installation
}

// touchesNothingInvalid lists what does not come from the spec, and growth, which comes from one field of it.
func touchesNothingInvalid(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if s.Deleting || len(design.Problems(s)) == 0 {
		return true
	}
	switch do := action.Do.(type) {
	case database.StoreRecord, database.Release, database.TellPod, database.EndRequest, database.AdoptLease,
		database.BindCaches, database.PublishBundle:
		return true
	case database.CreateLease:
		return do.Succeeds != ""
	case database.Grow:
		_, log := database.ClaimOwner(action.Name)
		return design.SizeCounts(s, log)
	case database.StoreCertificates:
		return s.Certificates.Issued() && do.Token == "" && !do.Issuer
	case database.Create, database.Update:
		rendered := action.Kind == database.KindSettings || action.Kind == database.KindClaim ||
			action.Kind == database.KindSet
		return !rendered && len(s.Instances) > 0
	default:
		return false
	}
}

func touchesNothingForeign(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if database.Does[database.AdoptClaim](action) {
		return true // DB32 has its own word about it.
	}
	child, found := s.Child(action.Kind, action.Name)
	if found && (child.State == database.Foreign || child.State == database.Unreadable) {
		return false
	}
	switch action.Do.(type) {
	case database.CreateBinding, database.BindCaches, database.BeginLogin, database.MoveLogin, database.PublishBundle:
		return s.Binding.Foreign == ""
	case database.StoreAccess:
		return action.Name == database.AccessName(s.Name) && s.Backup.Access.Foreign == "" ||
			action.Name == database.SourceName(s.Name) && s.Backup.Source.Foreign == ""
	case database.CreateLease, database.FreeLease:
		return s.Lease.Foreign == ""
	case database.StoreCertificates:
		return s.Certificates.Foreign() == "" && s.Certificates.Problem == ""
	default:
		return true
	}
}

func makesCredentialsOnce(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if action.Kind != database.KindSecret || action.Name != database.AppSecretName(s.Name) {
		return true
	}
	switch action.Do.(type) {
	case database.CreateBinding:
		return !s.Binding.Exists
	case database.BindCaches:
		return s.Binding.Exists && action.UID == s.Binding.UID && onlyAddresses(s.Caches.Unbound)
	case database.BeginLogin, database.MoveLogin, database.PublishBundle:
		return s.Binding.Exists && s.Binding.UID == action.UID
	default:
		return false
	}
}

// onlyAddresses says that nothing is written but addresses, and nothing is taken away but those of caches.
func onlyAddresses(changes []string) bool {
	return !slices.ContainsFunc(changes, func(change string) bool {
		key := strings.TrimLeft(change, "+-~")
		return !strings.HasPrefix(key, "CACHE_") && (!strings.HasPrefix(key, "DATABASE_") || change[0] == '-')
	})
}

func removesNoMounted(s database.Snapshot, plan database.Plan, action database.Action) bool {
	if !database.Does[database.RemoveCertificate](action) {
		return true
	}
	shared := action.Name == database.LeafName(s.Name) && s.Certificates.Leaf.UID == action.UID
	gone := slices.ContainsFunc(s.Certificates.Own, func(own database.Certificate) bool {
		serial, _ := database.SerialOf(s.Name, own.Instance)
		return own.UID == action.UID && database.CertificateName(s.Name, serial) == action.Name &&
			!plan.Design.Wants(own.Instance)
	})
	mounted := slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		has := instance.Pod != nil || instance.Set != nil
		shares := instance.Pod != nil && instance.Pod.Shares || instance.Set != nil && instance.Set.Shares
		return shared && shares || has && database.CertificateName(s.Name, instance.Serial) == action.Name
	})
	return action.Kind == database.KindSecret && (shared || gone) && !mounted
}

func replacesNoAuthority(s database.Snapshot, _ database.Plan, action database.Action) bool {
	trusted := s.Certificates.Issued() || s.Binding.Exists
	return !database.Does[database.StoreCertificates](action) || s.Certificates.Authorities > 0 || !trusted
}

func shrinksNothing(s database.Snapshot, plan database.Plan, action database.Action) bool {
	switch action.Do.(type) {
	case database.DeleteClaim, database.AdoptClaim, database.NoteParting, database.UnlabelClaim:
		return true // They write no size.
	default:
	}
	if action.Kind != database.KindClaim {
		return true
	}
	wanted, found := plan.Design.ClaimSize(action.Name)
	claim := claimFor(s, action.Name)
	return found && (claim == nil || wanted.Cmp(claim.Requested) >= 0)
}

// replacesNoVolume lets a volume be made for a new copy of data that others have, and for a new database that bears the
// finalizer: nobody else would take it away again.
func replacesNoVolume(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.Create](action) || action.Kind != database.KindClaim {
		return true
	}
	if !s.Guarded || !s.Record.Initialised {
		return s.Guarded
	}
	// The volume of the log is made for a new copy as well, and for no other.
	instance, _ := database.ClaimOwner(action.Name)
	counted := slices.ContainsFunc(s.Lease.Members, func(member database.Member) bool { return member.Name == instance })
	return s.Lease.Copy.Initialised && len(s.Lease.Members) > 0 && !counted && s.Lease.Holder != instance
}

// keepsCopies holds what a plan would write against every copy as it was read, and not against what the pass has made
// of them.
func keepsCopies(s database.Snapshot, plan database.Plan, action database.Action) bool {
	writes := database.Does[database.Create](action) || database.Does[database.Update](action) ||
		database.Does[database.StoreRecord](action)
	if !writes || action.Kind != database.KindSettings && action.Kind != database.KindClaim {
		return true
	}
	copies := []database.Record{s.Settings.Copy, s.Lease.Copy}
	for _, instance := range s.Instances {
		for _, claim := range []*database.Claim{instance.Claim, instance.LogClaim} {
			if claim == nil {
				continue
			}
			if claim.Origin != "" && claim.Origin != plan.Design.DataUID() {
				return false
			}
			copies = append(copies, claim.Copy)
		}
	}
	wanted := plan.Design.Record
	return s.Settings.Problem == "" && wanted.Initialised == (wanted.SystemIdentifier != "") &&
		!slices.ContainsFunc(copies, func(copied database.Record) bool { return copied.Initialised && copied != wanted })
}

func deletesOnlyStuckPods(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.DeletePod](action) {
		return true
	}
	return slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return database.PodName(instance.Name) == action.Name && instance.Pod != nil &&
			instance.Pod.UID == action.UID && instance.Pod.Stuck != "" && !instance.Pod.Ready
	})
}

// keepsDataOfDeletedClaims looks for the claim by what mounts it, so that an unknown pod counts as one without.
func keepsDataOfDeletedClaims(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !database.Does[database.DeletePod](action) && !database.Does[database.ReplacePod](action) {
		return true
	}
	for _, instance := range s.Instances {
		if instance.Pod != nil && instance.Pod.UID == action.UID {
			return !slices.ContainsFunc(s.Claims(instance), func(claim database.ClaimOf) bool { return !stays(claim.Claim) })
		}
	}
	return false
}

func isConditional(_ database.Snapshot, _ database.Plan, action database.Action) bool {
	conditional := action.UID != "" && action.ResourceVersion != ""
	switch action.Do.(type) {
	case database.Update, database.Remove, database.Grow, database.StoreRecord, database.DeleteClaim, database.DeletePod,
		database.RemovePod, database.DeleteSet, database.SetInstances, database.TellPod, database.FreeLease,
		database.SwitchOver, database.ReplacePod, database.RestartServer, database.AdoptLease, database.ResizePod,
		database.BeginRoll, database.EndRoll,
		database.LabelPod, database.WantBase, database.BindCaches, database.BeginLogin, database.MoveLogin,
		database.PublishBundle, database.AdoptClaim, database.NoteParting, database.UnlabelClaim,
		database.RemoveCertificate, database.NoteTrial, database.EndTrial:
		return conditional
	case database.Create, database.CreateBinding, database.CreateLease, database.BeginTrial:
		return action.UID == "" && action.ResourceVersion == ""
	case database.StoreAccess:
		return conditional || action.UID == "" && action.ResourceVersion == ""
	case database.StoreCertificates, database.Guard, database.Release, database.NoteRequest, database.EndRequest:
		// The first takes both forms; the others are conditional on the database itself, which act holds.
		return true
	}
	return false
}

func respectsPause(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !s.Spec.Paused || s.Deleting {
		return true
	}
	switch do := action.Do.(type) {
	case database.Release, database.StoreRecord, database.TellPod, database.EndRequest, database.AdoptLease,
		database.PublishBundle, database.UnlabelClaim:
		return true
	case database.StoreAccess:
		return action.UID != "" // keep-repository-access has its own word about it.
	case database.CreateLease:
		return do.Succeeds != ""
	case database.SwitchOver:
		// What was begun is brought to its end.
		return s.Request != nil && !s.Request.Since.IsZero()
	case database.StoreCertificates:
		return s.Certificates.Issued() && do.Token == "" && !do.Issuer
	default:
		return false
	}
}

func buildsNothingForTheDead(s database.Snapshot, _ database.Plan, action database.Action) bool {
	return !s.Deleting || database.Does[database.DeleteClaim](action) || database.Does[database.Release](action) ||
		database.Does[database.FreeLease](action) || database.Does[database.NoteParting](action) ||
		database.Does[database.EndTrial](action)
}
