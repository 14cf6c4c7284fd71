package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/wire"
)

// Link speaks with the server over its local socket. It remembers what it has said to the present server, because the
// server shows a value in another form than it was given in.
type Link struct {
	// Runtime is the folder of the socket.
	Runtime string
	Port    int
	Secret  *Secret
	Runner  *Runner

	// knows is what the server was last told to log in with to whom it follows.
	knows  atomic.Pointer[string]
	once   sync.Once
	client *client.Client
	far    far
	life   life
	fixed  map[string]bool
}

// life is what was said to one server.
type life struct {
	incarnation string
	loaded      string
	parameters  map[string]*said
}

// said is what was said about one parameter.
type said struct {
	before, set, after string
	tried, refused     string
}

// open makes the client, which connects when it is used.
func (l *Link) open() *client.Client {
	l.once.Do(func() {
		l.fixed = map[string]bool{}
		// One connection is used at a time. The pool is larger because a client stands back for a second after as many
		// failures as its pool has places, and a server that starts is tried every few milliseconds.
		l.client = client.NewClient(&client.Options{
			Network: "unix", Addr: filepath.Join(l.Runtime, render.SocketFile),
			CredentialsProvider: func() (string, string) { return render.AgentUser, l.Secret.Password() },
			Protocol:            2, DisableIdentity: true, PoolSize: 200, MaxRetries: -1, DialerRetries: 1,
			DialTimeout: time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
			ContextTimeoutEnabled:    true, // Who may wait for a second only has a context that says so.
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	})
	return l.client
}

// Close ends the connection.
func (l *Link) Close() {
	_ = l.open().Close()
	if l.far.mutex.TryLock() { // Nobody waits for an answer that nobody needs any more.
		defer l.far.mutex.Unlock()
		l.far.close()
	}
}

// Server implements redis.Link.
func (l *Link) Server(ctx context.Context, parameters []string, logins redis.Logins) redis.Server {
	facts, err := l.read(ctx, parameters, logins)
	if err != nil {
		return redis.Server{Problem: brief(err)}
	}
	l.Runner.Answered()
	return facts
}

func (l *Link) read(ctx context.Context, parameters []string, logins redis.Logins) (redis.Server, error) {
	figures, err := l.figures(ctx)
	if err != nil {
		return redis.Server{}, err
	}
	number := func(name string) int64 {
		value, _ := strconv.ParseInt(figures[name], 10, 64)
		return value
	}
	if figures["run_id"] != l.life.incarnation {
		l.life = life{
			incarnation: figures["run_id"], loaded: l.Runner.Certificate(), parameters: map[string]*said{},
		}
	}
	facts := redis.Server{
		Reachable: true, Loaded: l.life.loaded, Version: version(figures), Replication: replication(figures),
		MaxMemory: number("maxmemory"), Policy: figures["maxmemory_policy"],
		Used: number("used_memory"), Resident: number("used_memory_rss"),
		Loose: number("allocator_resident") - number("allocator_active"), Clients: number("connected_clients"),
		Hits: number("keyspace_hits"), Misses: number("keyspace_misses"), Evicted: number("evicted_keys"),
	}
	application, err := l.door(ctx, wire.CacheUser)
	if err != nil {
		return redis.Server{}, err
	}
	facts.Open = application.open
	facts.Matches = application.matches(logins.Application) &&
		slices.Contains(application.rules, scriptRule) == logins.NoScripts
	replicas, err := l.door(ctx, replicaUser(l.Runner.Look().Incarnation))
	if err != nil {
		return redis.Server{}, err
	}
	facts.Admits = replicas.matches(logins.Replication)
	knows := l.knows.Load()
	facts.Knows = knows != nil && len(logins.Replication) > 0 && *knows == logins.Replication[0]
	if facts.Waiting, err = l.waiting(ctx); err != nil {
		return redis.Server{}, err
	}
	facts.Parameters, err = l.parameters(ctx, parameters)
	return facts, err
}

// version prefers the word of Valkey, which also tells the version of Redis that it is compatible with.
func version(figures map[string]string) string {
	if own := figures["valkey_version"]; own != "" {
		return own
	}
	return figures["redis_version"]
}

// figures are what the server tells of itself, by name.
func (l *Link) figures(ctx context.Context) (map[string]string, error) {
	text, err := l.open().Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	figures := map[string]string{}
	readFigures(text, figures)
	return figures, nil
}

// readFigures reads lines of the form name:value.
func readFigures(text string, into map[string]string) {
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			into[name] = value
		}
	}
}

// parameters compares what was said with what is in force now.
func (l *Link) parameters(ctx context.Context, wanted []string) ([]redis.Parameter, error) {
	names := slices.Concat(wanted, slices.Collect(maps.Keys(l.life.parameters)))
	slices.Sort(names)
	var list []redis.Parameter
	for _, name := range slices.Compact(names) {
		known := l.life.parameters[name]
		if known == nil {
			list = append(list, redis.Parameter{Name: name})
			continue
		}
		now, err := l.value(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, redis.Parameter{
			Name: name, Set: known.set, InForce: known.set != "" && now == known.after,
			Tried: known.tried, Refused: known.refused,
		})
	}
	return list, nil
}

func (l *Link) value(ctx context.Context, name string) (string, error) {
	values, err := l.open().ConfigGet(ctx, name).Result()
	return values[name], err
}

// Fixed implements redis.Link.
func (l *Link) Fixed() []string {
	l.open()
	return slices.Sorted(maps.Keys(l.fixed))
}

// Presented implements redis.Link.
func (l *Link) Presented(ctx context.Context) (string, error) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: time.Second},
		// The certificate itself is what is asked for, and nothing is said over this connection.
		Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // See above.
	}
	host := cmp.Or(l.Runner.Listen, "localhost")
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(l.Port)))
	if err != nil {
		return "", fmt.Errorf("look at the certificate that is presented: %w", err)
	}
	defer func() { _ = connection.Close() }()
	secure, ok := connection.(*tls.Conn)
	if !ok || len(secure.ConnectionState().PeerCertificates) == 0 {
		return "", errors.New("look at the certificate that is presented: there is none")
	}
	return leafIdentity(secure.ConnectionState().PeerCertificates[0].Raw), nil
}

// LoadCertificate implements redis.Link. The server reads the files again although their names are the same.
func (l *Link) LoadCertificate(ctx context.Context, identity string) error {
	folder := filepath.Join(l.Runtime, render.TLSFolder)
	err := l.open().Do(ctx, "config", "set", "tls-cert-file", filepath.Join(folder, wire.KeyCertificate),
		"tls-key-file", filepath.Join(folder, wire.KeyPrivateKey),
		"tls-ca-cert-file", filepath.Join(folder, wire.KeyAuthority)).Err()
	if err != nil {
		return fmt.Errorf("load the certificate: %w", err)
	}
	l.life.loaded = identity
	return nil
}

// SetMemory implements redis.Link.
func (l *Link) SetMemory(ctx context.Context, bytes int64) error {
	return l.set(ctx, "maxmemory", strconv.FormatInt(bytes, 10))
}

// SetPolicy implements redis.Link.
func (l *Link) SetPolicy(ctx context.Context, policy string) error {
	return l.set(ctx, "maxmemory-policy", policy)
}

// waitingName is the parameter about all that waits for clients, of which one part is about replicas.
const waitingName = "client-output-buffer-limit"

// SetWaiting implements redis.Link. What waits for others stays as it is.
func (l *Link) SetWaiting(ctx context.Context, bytes int64) error {
	return l.set(ctx, waitingName, fmt.Sprintf("replica %[1]d %[1]d 0", bytes))
}

// waiting reads such as normal 0 0 0 slave 67108864 67108864 0 pubsub 33554432 8388608 60.
func (l *Link) waiting(ctx context.Context) (int64, error) {
	text, err := l.value(ctx, waitingName)
	if err != nil {
		return 0, err
	}
	words := strings.Fields(text)
	for at := 0; at+1 < len(words); at++ {
		if words[at] == "slave" || words[at] == "replica" {
			return strconv.ParseInt(words[at+1], 10, 64)
		}
	}
	return 0, nil
}

func (l *Link) set(ctx context.Context, name, value string) error {
	if err := l.open().ConfigSet(ctx, name, value).Err(); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}

// SetParameter implements redis.Link.
func (l *Link) SetParameter(ctx context.Context, parameter wire.Parameter) error {
	known := l.life.parameters[parameter.Name]
	if known == nil {
		before, err := l.value(ctx, parameter.Name)
		if err != nil {
			return fmt.Errorf("set %s: %w", parameter.Name, err)
		}
		known = &said{before: before}
	}
	switch err := l.set(ctx, parameter.Name, parameter.Value); {
	case isRefusal(err) && strings.Contains(err.Error(), "immutable"):
		l.fixed[parameter.Name] = true
		return nil
	case isRefusal(err):
		known.tried, known.refused = parameter.Value, refusal(err)
		l.life.parameters[parameter.Name] = known
		return nil
	case err != nil:
		return err
	}
	after, err := l.value(ctx, parameter.Name)
	if err != nil {
		return fmt.Errorf("read %s again: %w", parameter.Name, err)
	}
	known.set, known.after, known.tried, known.refused = parameter.Value, after, "", ""
	l.life.parameters[parameter.Name] = known
	return nil
}

// ResetParameter implements redis.Link.
func (l *Link) ResetParameter(ctx context.Context, name string) error {
	known := l.life.parameters[name]
	if known == nil {
		return nil
	}
	if err := l.set(ctx, name, known.before); err != nil {
		return err
	}
	delete(l.life.parameters, name)
	return nil
}

// isRefusal tells the word of a server that has understood from everything else that can go wrong.
func isRefusal(err error) bool {
	var said client.Error
	return errors.As(err, &said) && strings.HasPrefix(said.Error(), "ERR ")
}

// refusal is the part of an answer that a user can do something with.
func refusal(err error) string {
	var said client.Error
	if !errors.As(err, &said) {
		return err.Error()
	}
	_, reason, found := strings.Cut(said.Error(), ") - ")
	if !found {
		reason = strings.TrimPrefix(said.Error(), "ERR ")
	}
	return reason
}

// ReturnMemory implements redis.Link.
func (l *Link) ReturnMemory(ctx context.Context) error {
	if err := l.open().Do(ctx, "memory", "purge").Err(); err != nil {
		return fmt.Errorf("give memory back: %w", err)
	}
	return nil
}

// brief is the cause of a failed call without the name of the socket, which tells a user nothing.
func brief(err error) string {
	if call, ok := errors.AsType[*net.OpError](err); ok {
		return call.Err.Error()
	}
	return err.Error()
}
