// Package observe reads once per pass everything that the plan needs, and interprets it. What cannot be read is a fact
// of the Snapshot, not a failed pass. It writes nothing. Start reading at Observer.Look.
package observe

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// calm is how long a certificate that was seen counts as the one that is presented, when nothing gives cause to doubt
// it: looking costs a handshake.
const calm = 30 * time.Second

// Observer reads for one instance. It is for one goroutine.
type Observer struct {
	Instance string
	// Cache is the name of the GeoCache that this pod was made for.
	Cache  string
	Clock  redis.Clock
	Mounts redis.Mounts
	Room   redis.Room
	Runner redis.Runner
	Link   redis.Link
	Track  *Track

	// wanted are the last settings that could be read.
	wanted    *wire.CacheSettings
	hash      string
	presented string
	looked    time.Time
}

// Doubt makes the next pass look at the certificate again.
func (o *Observer) Doubt() { o.looked = time.Time{} }

// Told is what the instance is told, from outside.
type Told struct {
	Stopping bool
	Standing tenure.Standing
	Fenced   uint64
}

// Look makes the snapshot of a pass.
func (o *Observer) Look(ctx context.Context, told Told) redis.Snapshot {
	snapshot := redis.Snapshot{
		Now: o.Clock.Now(), Instance: o.Instance, Stopping: told.Stopping, Standing: told.Standing, Fenced: told.Fenced,
		Process: o.Runner.Look(),
	}
	if told.Stopping {
		// Nothing may hold up a pod that ends.
		snapshot.Settings.Wanted = o.wanted
		return snapshot
	}
	snapshot.Settings = o.settings()
	snapshot.Certificate = o.Mounts.Certificate()
	snapshot.Container.Limit = o.Room.Limit()
	passwords, err := o.Mounts.Passwords()
	if err != nil {
		snapshot.NoPassword = err.Error()
	}
	logins := passwords.Logins(snapshot.Settings.Wanted)
	snapshot.Turns, snapshot.Rotation = len(logins.Replication), passwords.Rotation
	snapshot.Replication = passwords.Own != ""
	if snapshot.Process.Running {
		snapshot.Server = o.Link.Server(ctx, names(snapshot), logins)
	}
	snapshot.Fixed = o.Link.Fixed()
	if snapshot.Server.Reachable {
		snapshot.Server.Presented = o.certificate(ctx, snapshot.Now)
	} else {
		o.Doubt()
	}
	o.Track.look(&snapshot)
	if asked, ok := o.Track.asks(snapshot); ok {
		o.Link.Far(asked.upstream, snapshot.Server.Host, logins, func(offset int64, err error) {
			o.Track.answer(asked, offset, err)
		})
	}
	return snapshot
}

// names are the parameters that the settings speak of.
func names(snapshot redis.Snapshot) []string {
	if snapshot.Settings.Wanted == nil {
		return nil
	}
	var list []string
	for _, parameter := range snapshot.Parameters() {
		list = append(list, parameter.Name)
	}
	return slices.Compact(list)
}

// settings refuses those of another cache by name: the wrong object is mounted then.
func (o *Observer) settings() redis.Settings {
	settings, err := o.Mounts.Settings()
	switch {
	case err != nil:
		return redis.Settings{Wanted: o.wanted, Hash: o.hash, Problem: err.Error()}
	case settings.Cache != o.Cache:
		return redis.Settings{Wanted: o.wanted, Hash: o.hash, Problem: fmt.Sprintf(
			"they are of the cache %q, and this pod belongs to %q", settings.Cache, o.Cache)}
	}
	if o.wanted == nil || !reflect.DeepEqual(*o.wanted, settings) {
		o.wanted, o.hash = &settings, settings.Hash()
	}
	return redis.Settings{Wanted: o.wanted, Hash: o.hash}
}

// certificate goes without an answer when the handshake fails: the server may be busy, and nothing follows from that.
func (o *Observer) certificate(ctx context.Context, now time.Time) string {
	if age := now.Sub(o.looked); o.presented != "" && age >= 0 && age < calm {
		return o.presented
	}
	presented, err := o.Link.Presented(ctx)
	if err != nil {
		return ""
	}
	o.presented, o.looked = presented, now
	return presented
}
