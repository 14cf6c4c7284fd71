package operator

import (
	"context"
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// election answers reads of the lease.
type election struct {
	client.Reader
	holder *string
	fails  error
	asked  client.ObjectKey
}

func (e *election) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	e.asked = key
	into.(*coordinationv1.Lease).Spec.HolderIdentity = e.holder
	return e.fails
}

func TestLeads(t *testing.T) {
	me, other, nobody := "host_1", "host_2", ""
	failure := errors.New("no answer")
	cases := map[string]struct {
		election election
		conflict bool
		want     error
	}{
		"it does":            {election{holder: &me}, false, nil},
		"another one does":   {election{holder: &other}, true, nil},
		"it has given it up": {election{holder: &nobody}, true, nil},
		"nobody ever did":    {election{}, true, nil},
		"nobody knows":       {election{fails: failure}, false, failure},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := leads(&tc.election, "home", me)(t.Context())
			if apierrors.IsConflict(err) != tc.conflict || !tc.conflict && !errors.Is(err, tc.want) {
				t.Errorf("it says %v", err)
			}
			if tc.election.asked != (client.ObjectKey{Namespace: "home", Name: Name}) {
				t.Errorf("it has read %s", tc.election.asked)
			}
		})
	}
}
