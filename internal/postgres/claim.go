package postgres

import "meridian.dev/meridian/internal/tenure"

// Claim is the claim of the own volume, read from the API server when the agent starts. A pod keeps the claim that it
// was started with, so that is enough.
type Claim struct {
	// Asked says that the first answer is still on its way. It comes soon, if only the one that nobody answers.
	Asked bool `json:"asked,omitempty"`
	// UID tells it from others of the same name. Empty: nobody knows, and nothing is decided by it.
	UID string `json:"uid,omitempty"`
	// Accepted says that a user vouches for the copy, under this very claim.
	Accepted bool `json:"accepted,omitempty"`
}

// PutBack says that the volume has come with another claim than the copy on it was recorded under, and that nobody
// vouches for it: it may be an older state of the copy, such as from a snapshot. Such a copy is not the member that its
// record tells of (I1). One that is being removed is nobody's concern any more.
func (v Volume) PutBack() bool {
	return v.moved() && !v.Claim.Accepted
}

// ToAccept says that a user vouches for a copy that was put back, and that it is not recorded yet.
func (v Volume) ToAccept() bool { return v.moved() && v.Claim.Accepted }

func (v Volume) moved() bool {
	record := v.Record
	return record != nil && record.InProgress != StepDiscard && record.ClaimUID != "" && v.Claim.UID != "" &&
		record.ClaimUID != v.Claim.UID
}

// MayRepeat says that this instance is told to lead on a timeline that was given out before its copy was put back, in a
// database of several members: others may have a log of that timeline, which this copy would write once more with other
// content (T1).
func (s Snapshot) MayRepeat() bool {
	record := s.Volume.Record
	return record != nil && s.Standing.Role == tenure.RoleLead && s.Standing.Timeline <= record.PutBack &&
		len(s.Standing.Members) > 1
}
