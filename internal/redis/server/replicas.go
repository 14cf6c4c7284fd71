package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
)

// nobody is what a replica follows that is cut off from every primary: a port at which nobody listens. So it stays a
// replica, refuses writes and can go on later from where it is, which one that was made a primary could not.
const (
	nobodyHost = "127.0.0.1"
	nobodyPort = "1"
)

// replicaUser is whom replicas are to the server that holds a copy. Its name has the id of the copy in it, so that
// nobody follows another copy than is meant, wherever an address leads.
func replicaUser(incarnation string) string { return "replica-" + incarnation }

// replication reads the figures about it.
func replication(figures map[string]string) redis.Replication {
	number := func(name string) int64 {
		value, _ := strconv.ParseInt(figures[name], 10, 64)
		return value
	}
	facts := redis.Replication{Offset: number("master_repl_offset")}
	if figures["role"] == "slave" {
		facts.Replica, facts.Offset = true, number("slave_repl_offset")
		if figures["master_host"] != nobodyHost || figures["master_port"] != nobodyPort {
			facts.Host = figures["master_host"]
		}
		facts.Up = facts.Host != "" && figures["master_link_status"] == "up"
		facts.Quiet = time.Duration(max(number("master_last_io_seconds_ago"), 0)) * time.Second
		facts.Syncing = figures["master_sync_in_progress"] == "1" || figures["loading"] == "1"
	}
	for i := range number("connected_slaves") {
		if sent, ok := parseSent(figures["slave"+strconv.FormatInt(i, 10)]); ok {
			facts.Sent = append(facts.Sent, sent)
		}
	}
	return facts
}

// parseSent reads such as ip=tiles-2/c0de,port=6379,state=online,offset=28,lag=1. In the place of its address a replica
// of ours announces which copy it is.
func parseSent(text string) (redis.Sent, bool) {
	fields := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		fields[name] = value
	}
	offset, err := strconv.ParseInt(fields["offset"], 10, 64)
	lag, _ := strconv.ParseInt(fields["lag"], 10, 64)
	return redis.Sent{
		Member: wire.ParseMember(fields["ip"]), Online: fields["state"] == "online", Offset: offset,
		Quiet: time.Duration(max(lag, 0)) * time.Second,
	}, err == nil
}

// Replication implements redis.Replicas.
func (l *Link) Replication(ctx context.Context) (redis.Replication, error) {
	figures, err := l.figures(ctx)
	if err != nil {
		return redis.Replication{}, fmt.Errorf("look at the replication: %w", err)
	}
	return replication(figures), nil
}

// Follow implements redis.Replicas. It detaches first: to a server that follows the same address already, the words for
// it are no news, and it would go on as whom it logged in before.
func (l *Link) Follow(ctx context.Context, upstream wire.Member, address, secret string) error {
	if err := l.Detach(ctx); err != nil {
		return err
	}
	err := l.open().Do(ctx, "config", "set", "masteruser", replicaUser(upstream.Incarnation), "masterauth", secret).Err()
	if err != nil {
		return fmt.Errorf("follow %s: %w", upstream.Name, err)
	}
	if err := l.open().Do(ctx, "replicaof", address, strconv.Itoa(l.Port)).Err(); err != nil {
		return fmt.Errorf("follow %s: %w", upstream.Name, err)
	}
	l.knows.Store(&secret)
	return nil
}

// Detach implements redis.Replicas.
func (l *Link) Detach(ctx context.Context) error {
	if err := l.open().Do(ctx, "replicaof", nobodyHost, nobodyPort).Err(); err != nil {
		return fmt.Errorf("follow nobody: %w", err)
	}
	return nil
}

// Promote implements redis.Replicas.
func (l *Link) Promote(ctx context.Context) error {
	if err := l.open().Do(ctx, "replicaof", "no", "one").Err(); err != nil {
		return fmt.Errorf("become the primary: %w", err)
	}
	return nil
}

// Admit implements redis.Replicas. Who is connected stays connected.
func (l *Link) Admit(ctx context.Context, incarnation string, logins redis.Logins) error {
	words := []any{"acl", "setuser", replicaUser(incarnation), "on", "resetpass"}
	for _, secret := range logins.Replication {
		words = append(words, "#"+hashOf(secret))
	}
	words = append(words, "+psync", "+sync", "+replconf", "+ping", "+role")
	if err := l.open().Do(ctx, words...).Err(); err != nil {
		return fmt.Errorf("let replicas in: %w", err)
	}
	return nil
}

// CloseDoor implements redis.Link. Both words go at once: a door that lets nobody in counts as closed, so that nobody
// would ever end the connections of those who are in, if the pass ended between them.
func (l *Link) CloseDoor(ctx context.Context) error {
	words := l.open().Pipeline()
	words.Do(ctx, "acl", "setuser", wire.CacheUser, "off")
	words.Do(ctx, "client", "kill", "user", wire.CacheUser)
	if _, err := words.Exec(ctx); err != nil {
		return fmt.Errorf("keep the application out: %w", err)
	}
	return nil
}

// Flush implements redis.Link.
func (l *Link) Flush(ctx context.Context) error {
	if err := l.open().FlushAllAsync(ctx).Err(); err != nil {
		return fmt.Errorf("empty the cache: %w", err)
	}
	return nil
}

// hearPatience bounds one wait for a word of a replica. A replica that is well needs a few milliseconds.
const hearPatience = 100 * time.Millisecond

// HearReplicas implements redis.Link. A server asks its replicas when somebody waits for what he himself has written;
// so something is written that changes no data, and that nobody hears: a message to a channel which only those get who
// name it.
func (l *Link) HearReplicas(ctx context.Context) error {
	connection := l.open().Conn()
	defer func() { _ = connection.Close() }()
	if err := connection.SPublish(ctx, "meridian", "").Err(); err != nil {
		return fmt.Errorf("write something for the replicas: %w", err)
	}
	if err := connection.Wait(ctx, 1, hearPatience).Err(); err != nil {
		return fmt.Errorf("hear how far the replicas have come: %w", err)
	}
	return nil
}

// End implements redis.Link. The server ends without an answer.
func (l *Link) End(ctx context.Context) error {
	if err := l.open().Do(ctx, "shutdown", "nosave", "now", "force").Err(); isRefusal(err) {
		return fmt.Errorf("end the server: %w", err)
	}
	return nil
}
