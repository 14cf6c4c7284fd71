package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/service"
)

func TestCompareClocks(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const years = 11 * 365 * 24 * time.Hour
	due := service.Certificates{Steps: []string{"create authority"}}
	for name, test := range map[string]struct {
		certificates service.Certificates
		other        time.Time
		fails        error
		asked        bool
		ahead        time.Duration
	}{
		"they agree":        {certificates: due, other: now.Add(time.Second), asked: true},
		"a little behind":   {certificates: due, other: now.Add(4 * time.Minute), asked: true},
		"years ahead":       {certificates: due, other: now.Add(-years), asked: true, ahead: years},
		"years behind":      {certificates: due, other: now.Add(years), asked: true, ahead: -years},
		"minutes ahead":     {certificates: due, other: now.Add(-6 * time.Minute), asked: true, ahead: 6 * time.Minute},
		"nobody tells":      {certificates: due, asked: true},
		"nobody can be had": {certificates: due, fails: errors.New("no route to host"), asked: true},
		"nothing is due":    {other: now.Add(-years)},
		"a rotation goes on": {
			certificates: service.Certificates{Renewal: []string{"issue leaf"}}, other: now.Add(-years),
			asked: true, ahead: years,
		},
		"applications are told of another root": {
			certificates: service.Certificates{Issuing: service.Issuing{Change: []string{"tell of it"}}},
			other:        now.Add(-years), asked: true, ahead: years,
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			err := test.certificates.Compare(t.Context(), func(context.Context) (time.Time, error) {
				asked = true
				return test.other, test.fails
			}, func() time.Time { return now })
			if !errors.Is(err, test.fails) || asked != test.asked {
				t.Errorf("the error is %v, want %v; asked is %t, want %t", err, test.fails, asked, test.asked)
			}
			if got := test.certificates.Ahead; got != test.ahead {
				t.Errorf("noted is %s, want %s", got, test.ahead)
			}
		})
	}
}

// TestAskTimeThrough: whoever refuses to be asked does not hold up certificates; whoever may answer later does.
func TestAskTimeThrough(t *testing.T) {
	for code, want := range map[int]bool{
		400: false, 401: true, 403: false, 404: false, 405: false, 422: false, 429: true, 500: true, 504: true,
	} {
		if at, err := service.AskTimeThrough(refusing{code: code})(t.Context()); !at.IsZero() || (err != nil) != want {
			t.Errorf("after an answer of %d: %s, %v; want an error: %t", code, at, err, want)
		}
	}
}

// refusing is an API server that answers what is made with a code.
type refusing struct {
	client.Client
	code int
}

func (r refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	return apierrors.NewGenericServerResponse(r.code, "create", schema.GroupResource{}, "", "no", 0, true)
}
