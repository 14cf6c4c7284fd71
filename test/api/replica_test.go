//go:build cluster

package api_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/webhook"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/rbac"
)

// installation is a webhook as it is installed, except that the API server reaches it by an address of loopback, since
// there are no Services here. It looks after one namespace, which is also its home.
type installation struct {
	namespace string
	lifetimes *webhook.Lifetimes
	now       func() time.Time
	recorder  rbac.Recorder
	balancer  *balancer
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	installed := &installation{namespace: newNamespace(t), balancer: newBalancer(t)}
	configuration := webhook.Configuration(installed.namespace, []string{installed.namespace})
	for i := range configuration.Webhooks {
		config := &configuration.Webhooks[i].ClientConfig
		config.URL, config.Service = new("https://"+installed.balancer.address()+*config.Service.Path), nil
	}
	if err := cluster.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), configuration) })
	return installed
}

// startReplica starts a replica of the operator's webhook behind the balancer, and returns how to stop it.
func (i *installation) startReplica(t *testing.T) (stop func()) {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	config.Wrap(i.recorder.Wrap)
	own, err := client.New(config, client.Options{Scheme: cluster.Scheme(), Mapper: cluster.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	replica, err := webhook.New(webhook.Options{
		Client: hesitant{own}, Home: i.namespace, Listener: listener, Lifetimes: i.lifetimes, Now: i.now,
		Idle: 10 * time.Millisecond, Linger: time.Millisecond,
		Profile: &pki.Profile{CommonName: "webhook", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- replica.Start(ctx) }()
	awaitTrue(t, "the webhook has a certificate", func() bool { return replica.Ready(nil) == nil })
	leave := i.balancer.join(listener.Addr().String())
	var once sync.Once
	stop = func() {
		once.Do(func() {
			leave() // A pod that ends is taken out of its Service first.
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the webhook ended: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// hesitant waits a little after each call, so that replicas get between the reads and writes of each other.
type hesitant struct{ client.Client }

func (h hesitant) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	defer hesitate()
	return h.Client.Get(ctx, key, into, opts...)
}

func (h hesitant) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	defer hesitate()
	return h.Client.Update(ctx, obj, opts...)
}

func (h hesitant) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	defer hesitate()
	return h.Client.Patch(ctx, obj, patch, opts...)
}

func hesitate() { time.Sleep(time.Duration(time.Now().UnixNano() % int64(100*time.Millisecond))) }

func awaitTrue(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s until %s", what)
		}
	}
}

// balancer leads each new connection to the next replica, as a Service does.
type balancer struct {
	listener net.Listener

	mutex       sync.Mutex
	replicas    []string
	connections int
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	made := &balancer{listener: listener}
	go made.serve()
	t.Cleanup(func() { _ = listener.Close() })
	return made
}

func (b *balancer) address() string { return b.listener.Addr().String() }

func (b *balancer) join(address string) (leave func()) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.replicas = append(b.replicas, address)
	return func() {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		var others []string
		for _, replica := range b.replicas {
			if replica != address {
				others = append(others, replica)
			}
		}
		b.replicas = others
	}
}

// next is empty if there is no replica.
func (b *balancer) next() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.connections++
	if len(b.replicas) == 0 {
		return ""
	}
	return b.replicas[b.connections%len(b.replicas)]
}

func (b *balancer) count() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.connections
}

func (b *balancer) serve() {
	for {
		incoming, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.lead(incoming)
	}
}

func (b *balancer) lead(incoming net.Conn) {
	defer func() { _ = incoming.Close() }()
	outgoing, err := net.Dial("tcp", b.next())
	if err != nil {
		return
	}
	defer func() { _ = outgoing.Close() }()
	go func() {
		_, _ = io.Copy(outgoing, incoming)
		_ = outgoing.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(incoming, outgoing)
}
