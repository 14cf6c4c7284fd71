//go:build cluster

package api_test

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"path"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllercluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	nouns "meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	databaseloop "meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/test/apiserver"
)

// process is one life of an operator on the real API server, with caches, memory and connections of its own. What its
// caches hear of the API server comes late: the bytes of every watch are held back on their way. Nothing of
// client-go, controller-runtime or the controllers is replaced.
type process struct {
	part controllercluster.Cluster
	// tracker is the memory of own writes, nil where the test shows what becomes of a controller without one.
	tracker *expect.Tracker
	// survives is how many creates it lives to see, 0 for all.
	survives atomic.Int64
	lag      *apiserver.Lag
	made     atomic.Int64
}

// startProcess starts the caches of a process and fills them; from then on they are late by some of its passes.
func startProcess(t *testing.T, namespace string, passes int, tracked bool, sent *creates) *process {
	t.Helper()
	started := &process{lag: &apiserver.Lag{}}
	config := rest.CopyConfig(server.Config)
	config.Wrap(sent.wrap)
	config.Wrap(started.lag.Wrap)
	config.Wrap(started.die)
	part, err := controllercluster.New(config, func(options *controllercluster.Options) {
		options.Scheme = cluster.Scheme()
		options.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
		options.Client.Cache = &client.CacheOptions{DisableFor: databaseloop.Live()}
	})
	if err != nil {
		t.Fatal(err)
	}
	started.part = part
	caches := expect.NewCaches(cluster.Scheme())
	if err := errors.Join(
		caches.Watch(t.Context(), part.GetCache(), namespace, databaseloop.Cached()...),
		caches.ReadLive(databaseloop.Live()...),
	); err != nil {
		t.Fatal(err)
	}
	if tracked {
		started.tracker = expect.New(caches, cluster.Scheme(), expect.Options{})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run the caches: %v", err)
		}
	})
	if !part.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the caches were not filled")
	}
	started.lag.Set(passes)
	return started
}

// databases is the real loop of databases in this process. Without a tracker it reads from its caches at any time, and
// asks nobody about what they do not show, as a reconciler does that does not know of the problem; the operator itself
// always has a tracker, and reads live what its caches do not show.
func (p *process) databases(t *testing.T) *databaseloop.Loop {
	t.Helper()
	author := apply.Author{Scheme: cluster.Scheme(), Prefix: nouns.AnnotationPrefix, Manager: nouns.FieldManager}
	absent := p.part.GetAPIReader()
	if p.tracker == nil {
		absent = credulous{Reader: absent, caches: p.part.GetCache()}
	}
	made, err := databaseloop.New(loop.Config{
		Name: "late", Client: p.part.GetClient(), Live: p.part.GetAPIReader(), Tracker: p.tracker,
	}, observe.Observer{
		Live: absent, Author: author, Now: time.Now,
		Images: nouns.Images{Agent: "meridian:1", Server: "postgis"},
		Ask: func(context.Context, service.Agent) (wire.Report, error) {
			return wire.Report{}, errors.New("there are no nodes here, so no agents")
		},
	}, act.Actor{
		Client: p.part.GetClient(), Live: p.part.GetAPIReader(), Author: author, Random: rand.Reader, Now: time.Now,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// credulous reads live only what no cache has: what a cache does not show is not there for it.
type credulous struct {
	client.Reader
	caches client.Reader
}

func (c credulous) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	for _, kind := range databaseloop.Cached() {
		if reflect.TypeOf(kind) == reflect.TypeOf(into) {
			return c.caches.Get(ctx, key, into, options...)
		}
	}
	return c.Reader.Get(ctx, key, into, options...)
}

// die lets no request through after the last create that the process lives to see.
func (p *process) die(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if p.dead() {
			return nil, errors.New("this process is dead")
		}
		if request.Method == http.MethodPost {
			defer p.made.Add(1)
		}
		return next.RoundTrip(request)
	})
}

func (p *process) dead() bool { return p.survives.Load() > 0 && p.made.Load() >= p.survives.Load() }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// creates counts the requests that wanted to make an object, by the plural of its kind. It is shared by the processes
// that follow each other.
type creates struct {
	mutex       sync.Mutex
	sent, taken map[string]int
}

func newCreates() *creates { return &creates{sent: map[string]int{}, taken: map[string]int{}} }

func (c *creates) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if request.Method != http.MethodPost {
			return response, err
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		kind := path.Base(request.URL.Path)
		c.sent[kind]++
		if err == nil && response.StatusCode == http.StatusCreated {
			c.taken[kind]++
		}
		return response, err
	})
}

// counts returns how many were sent and how many of these were carried out.
func (c *creates) counts() (sent, taken map[string]int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return maps.Clone(c.sent), maps.Clone(c.taken)
}
