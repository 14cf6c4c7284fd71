package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/expect"
)

const (
	// DefaultTimeout is how long a pass may take before its status is reported.
	DefaultTimeout = time.Minute
	// DefaultConflictDelay is when a pass that met a conflict is repeated.
	DefaultConflictDelay = 500 * time.Millisecond
	// statusTimeout is apart from the timeout of the pass, so that a pass that ran out of time can still say so.
	statusTimeout = 10 * time.Second
)

// Config is what a loop needs of its process.
type Config struct {
	// Name is the value of the label "loop" in metrics.
	Name string
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server. It is required with a Tracker, and with stages that tell which plans write.
	Live client.Reader
	// Tracker holds the own writes of this loop. Without one, passes read from the Client at any time.
	Tracker *expect.Tracker
	// Leads says by a live read that this process is still the one that acts, and returns a conflict if it is not. It is
	// asked before a plan that writes, if the stages tell which do. It may be nil if there is never another process.
	Leads func(context.Context) error
	// Events may be nil.
	Events events.EventRecorder
	// Metrics may be nil.
	Metrics *Metrics
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	// Timeout and ConflictDelay are the defaults of this package if zero.
	Timeout, ConflictDelay time.Duration
}

// Loop runs the passes of one control loop. It is safe for concurrent use as far as its stages are.
type Loop[O client.Object, Snapshot, Plan, Outcome any] struct {
	config Config
	stages Stages[O, Snapshot, Plan, Outcome]
}

// New puts a loop together.
func New[O client.Object, Snapshot, Plan, Outcome any](
	config Config, stages Stages[O, Snapshot, Plan, Outcome],
) (*Loop[O, Snapshot, Plan, Outcome], error) {
	switch {
	case config.Client == nil:
		return nil, errors.New("a loop needs a client")
	case config.Tracker != nil && config.Live == nil:
		return nil, errors.New("a loop with a tracker needs a live reader")
	case config.Leads != nil && stages.Writes == nil:
		return nil, errors.New("a loop that asks whether it leads needs to know which plans write")
	case stages.Writes != nil && config.Live == nil:
		return nil, errors.New("a loop that confirms its plans needs a live reader")
	case stages.Observe == nil || stages.Decide == nil || stages.Act == nil || stages.Report == nil:
		return nil, errors.New("a loop needs the stages Observe, Decide, Act and Report")
	case reflect.TypeFor[O]().Kind() != reflect.Pointer:
		return nil, fmt.Errorf("a loop needs a pointer to an object, not %s", reflect.TypeFor[O]())
	}
	config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	config.ConflictDelay = cmp.Or(config.ConflictDelay, DefaultConflictDelay)
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Loop[O, Snapshot, Plan, Outcome]{config: config, stages: stages}, nil
}
