package design

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/pki"
)

// Renewal is the policy of a rotation: what was made before it began is replaced.
func Renewal(policy pki.Policy, rotation database.Rotation) pki.Policy {
	if rotation.UnderWay() {
		policy.Renew = rotation.Began
	}
	return policy
}

// Advance says how far a rotation has come with this state.
func Advance(rotation database.Rotation, state pki.State, now time.Time) database.Rotation {
	if !rotation.UnderWay() {
		return rotation
	}
	old := func(leaf pki.Leaf) bool {
		return !slices.ContainsFunc(state.Authorities, func(authority pki.Authority) bool {
			return !authority.Trusted.Before(rotation.Began) && leaf.Certificate.CheckSignatureFrom(authority.Certificate) == nil
		})
	}
	signs := len(state.Leaves) > 0 && !slices.ContainsFunc(state.Leaves, old)
	if signs && rotation.Signs.IsZero() {
		rotation.Signs = now
	}
	if signs && !state.Older(rotation.Began) {
		rotation.Done = now
	}
	return rotation
}
