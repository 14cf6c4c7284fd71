package operator

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// failing is a source that fails a number of times, and then answers.
func failing(times int, with error, asked *int) toolscache.ListerWatcher {
	fail := func() error {
		if *asked++; *asked <= times {
			return with
		}
		return nil
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{}, fail()
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), fail()
		},
	}
}

// TestInformersAskAgain has the API server be away for longer than a reflector would wait, and fail otherwise.
func TestInformersAskAgain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		times int
		with  error
		most  time.Duration
		asked int
		fails bool
	}{
		"nobody listens":                  {50, refused, time.Hour, 51, false},
		"it is starting":                  {50, apierrors.NewServiceUnavailable("starting"), time.Hour, 51, false},
		"the connection ends":             {50, io.ErrUnexpectedEOF, time.Hour, 51, false},
		"a right is missing":              {50, apierrors.NewForbidden(corev1.Resource("pods"), "", nil), time.Hour, 1, true},
		"the version is too old":          {50, apierrors.NewResourceExpired("too old"), time.Hour, 1, true},
		"it has too many requests":        {50, apierrors.NewTooManyRequests("later", 1), time.Hour, 1, true},
		"it is away for longer than that": {1 << 30, refused, 0, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, what := range []string{"list", "watch"} {
				asked := 0
				source := newPatient(failing(test.times, test.with, &asked), time.Microsecond, test.most)
				var err error
				if what == "list" {
					_, err = source.ListWithContext(t.Context(), metav1.ListOptions{})
				} else {
					_, err = source.WatchWithContext(t.Context(), metav1.ListOptions{})
				}
				if (err != nil) != test.fails || test.most > 0 && asked != test.asked {
					t.Errorf("%s: asked %d times, at last: %v", what, asked, err)
				}
			}
		})
	}
}

// TestInformersEndWhenTheyAreTold does not go on asking when the process ends.
func TestInformersEndWhenTheyAreTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asked := 0
	source := newPatient(failing(1<<30, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &asked), time.Hour, time.Hour)
	if _, err := source.ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, syscall.ECONNREFUSED) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
