package webhook

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"meridian.dev/meridian/kit/pki"
)

// Options is what a webhook needs to know. Home must be set; Add and New fill in the rest.
type Options struct {
	// Home is the namespace of the operator.
	Home string
	// Client reads live and writes: the Secret, the configuration, storage classes and claims.
	Client client.Client
	// Listener is where the API server calls, nil for all addresses and Port.
	Listener net.Listener
	// Profile is the certificate that is presented, the one of the Service by default.
	Profile *pki.Profile
	// Lifetimes are how long certificates live, the usual ones by default.
	Lifetimes *Lifetimes
	// Now is the clock, Random the source of keys.
	Now    func() time.Time
	Random io.Reader
	// Idle ends a connection that nobody uses. The API server ends such a connection itself, after 90 seconds: who ends it
	// first can meet a request that is just being sent.
	Idle time.Duration
	// Linger is how long it goes on answering when it is told to end, until the Service leads elsewhere.
	Linger time.Duration
	// Logger gets what goes wrong.
	Logger logr.Logger
}

// Lifetimes are how long certificates live, and how often they are looked at.
type Lifetimes struct {
	Authority, Leaf, Settle, Backdate time.Duration
	// Interval is the longest time between two looks, Retry the time after one that failed. Both are real time.
	Interval, Retry time.Duration
}

// usualLifetimes: a leaf is replaced after 20 days and an authority after some ten months. Looking costs each replica
// two reads in five minutes. An hour is plenty for a bundle to reach every API server, which watch the configuration.
var usualLifetimes = Lifetimes{
	Authority: 365 * 24 * time.Hour, Leaf: 30 * 24 * time.Hour, Settle: time.Hour, Backdate: time.Hour,
	Interval: 5 * time.Minute, Retry: 2 * time.Second,
}

// Add puts the webhook into a manager, with a client that does not read from caches. Every replica serves, whether it
// is elected or not, and is ready when it has a certificate.
func Add(into manager.Manager, options Options) (*Server, error) {
	live, err := client.New(into.GetConfig(), client.Options{Scheme: into.GetScheme(), Mapper: into.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client for the webhook: %w", err)
	}
	options.Client, options.Logger = live, into.GetLogger().WithName("webhook")
	server, err := New(options)
	if err != nil {
		return nil, err
	}
	if err := into.AddReadyzCheck("webhook", server.Ready); err != nil {
		return nil, fmt.Errorf("add the readiness of the webhook: %w", err)
	}
	return server, into.Add(server)
}

// Certificate is what the webhook presents, for others of this process that serve by the same names.
func (s *Server) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	material, err := s.keeper.material()
	if err != nil {
		return nil, err
	}
	return &material.Certificate, nil
}

// Server answers the API server.
type Server struct {
	options Options
	keeper  *keeper
}

// New checks the options and fills in what is not set.
func New(options Options) (*Server, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Random == nil {
		options.Random = rand.Reader
	}
	if options.Lifetimes == nil {
		options.Lifetimes = &usualLifetimes
	}
	if options.Idle == 0 {
		options.Idle = 2 * time.Minute
	}
	if options.Linger == 0 {
		options.Linger = 3 * time.Second
	}
	if options.Profile == nil {
		options.Profile = serviceProfile(options.Home)
	}
	policy := policyOf(*options.Profile, *options.Lifetimes)
	if err := policy.Check(); err != nil {
		return nil, fmt.Errorf("check the lifetimes of the webhook: %w", err)
	}
	return &Server{options: options, keeper: &keeper{
		client: options.Client, home: options.Home, policy: policy, now: options.Now, random: options.Random,
	}}, nil
}

// Policy is what an installed webhook follows: which certificate it presents, and when it is replaced.
func Policy(home string) pki.Policy { return policyOf(*serviceProfile(home), usualLifetimes) }

// serviceProfile describes the certificate of the Service.
func serviceProfile(home string) *pki.Profile {
	host := Name + "." + home + ".svc"
	return &pki.Profile{CommonName: host, DNSNames: []string{host}}
}

func policyOf(profile pki.Profile, lifetimes Lifetimes) pki.Policy {
	profile.Name, profile.Usage = leafName, pki.Server
	return pki.Policy{
		Name: Name, AuthorityLifetime: lifetimes.Authority, LeafLifetime: lifetimes.Leaf,
		Settle: lifetimes.Settle, Backdate: lifetimes.Backdate, Constrain: true, Leaves: []pki.Profile{profile},
	}
}

// NeedLeaderElection says that every replica answers.
func (s *Server) NeedLeaderElection() bool { return false }

// Ready says whether there is a certificate to answer with.
func (s *Server) Ready(*http.Request) error {
	_, err := s.keeper.material()
	return err
}

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listener := s.options.Listener
	if listener == nil {
		opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(Port))
		if err != nil {
			return fmt.Errorf("listen for the API server: %w", err)
		}
		listener = opened
	}
	var ends atomic.Bool
	server := usualBounds.server(farewell(Handler(s.options.Client), &ends))
	server.TLSConfig, server.IdleTimeout = pki.ServerConfig(nil, s.keeper.material), s.options.Idle
	server.ErrorLog = slog.NewLogLogger(logr.ToSlogHandler(s.options.Logger), slog.LevelInfo)
	listener = usualBounds.listener(listener)
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	s.keep(ctx)
	// For a moment the Service still leads here, and the API server has connections. It is told with each answer not to
	// use them again, so that none of its requests meets a connection that is being closed.
	ends.Store(true)
	time.Sleep(s.options.Linger)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience*time.Second)
	defer cancel()
	err := server.Shutdown(ending)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}

// farewell tells a client to open another connection for its next request, once this server ends.
func farewell(handler http.Handler, ends *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		if ends.Load() {
			out.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(out, request)
	})
}

// keep looks after the certificates until the context ends. Two replicas that look at the same moment get in each
// other's way, and one of them comes again.
func (s *Server) keep(ctx context.Context) {
	for {
		wait := s.options.Lifetimes.Interval
		again, err := s.keeper.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.options.Logger.Info("Keeping the certificates as they are", "reason", err.Error())
			wait = s.options.Lifetimes.Retry
		case again.Sub(s.options.Now()) < wait:
			wait = max(again.Sub(s.options.Now()), s.options.Lifetimes.Retry)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
