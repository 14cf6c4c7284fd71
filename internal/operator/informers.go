package operator

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

const (
	// askAgain is how long an informer waits, at least, before it asks an API server again that was away. At most it is
	// twice that: there are some dozens of them.
	askAgain = time.Second
	// askFor is how long that goes on before the failure is told, and written to the log: long enough for a reflector to
	// have forgotten the one before, so that it goes on at once.
	askFor = 150 * time.Second
)

// newInformer is that of client-go, but for how it asks an API server that is away. A reflector waits longer after each
// failure, in the end up to a minute. So after an outage of a minute its cache was as old as that for another one, and
// what was written to the status in between was wrong for as long.
func newInformer(
	source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(newPatient(source, askAgain, askFor), object, resync, indexers)
}

// patient asks a source again and again while the API server is away.
type patient struct {
	toolscache.ListerWatcher
	asked       toolscache.ListerWatcherWithContext
	again, most time.Duration
}

func newPatient(source toolscache.ListerWatcher, again, most time.Duration) patient {
	return patient{source, toolscache.ToListerWatcherWithContext(source), again, most}
}

// ListWithContext implements toolscache.ListerWatcherWithContext.
func (p patient) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return insist(ctx, p, func() (runtime.Object, error) { return p.asked.ListWithContext(ctx, options) })
}

// WatchWithContext implements toolscache.ListerWatcherWithContext.
func (p patient) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return insist(ctx, p, func() (watch.Interface, error) { return p.asked.WatchWithContext(ctx, options) })
}

// IsWatchListSemanticsUnSupported passes on what a reflector asks of its source.
func (p patient) IsWatchListSemanticsUnSupported() bool {
	source, asks := p.ListerWatcher.(interface{ IsWatchListSemanticsUnSupported() bool })
	return asks && source.IsWatchListSemanticsUnSupported()
}

// insist asks until there is an answer, or a failure that tells of something else than an API server that is away.
func insist[Answer any](ctx context.Context, p patient, ask func() (Answer, error)) (Answer, error) {
	for began := time.Now(); ; {
		answer, err := ask()
		if err == nil || !isAway(err) || time.Since(began) > p.most {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(wait.Jitter(p.again, 1)):
		}
	}
}

// isAway says that a failure tells of an API server that does not answer, or not yet. One that asks for fewer requests
// is not away: a reflector waits longer for it each time, as it should.
func isAway(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}
