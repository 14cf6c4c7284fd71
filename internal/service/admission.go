package service

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/apply"
)

// TryWrite carries a write out without effect, and says what would become of it.
type TryWrite func(ctx context.Context, write apply.Action) (apply.Result, error)

// TryWriteThrough tries writes through a client.
func TryWriteThrough(through client.Client, live client.Reader) TryWrite {
	actor := apply.Actor{Client: client.NewDryRunClient(through), Live: live}
	return actor.Do
}

// Tolerated are the fields of a drifted child that admission would change back in the very write that repairs them: a
// policy that rewrites images, for example. Repairing them is a quarrel without an end, in which the child would never
// be as wanted. A try that fails tolerates nothing.
func (t TryWrite) Tolerated(ctx context.Context, difference apply.Difference) []string {
	write, needed := difference.Action()
	if t == nil || difference.State != apply.Drifted || !needed {
		return nil
	}
	result, err := t(ctx, write)
	if err != nil {
		return nil
	}
	var fields []string
	for _, change := range result.Unheld {
		if slices.ContainsFunc(difference.Changes, func(one apply.Change) bool { return one.Path == change.Path }) {
			fields = append(fields, change.Path)
		}
	}
	return fields
}
