package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// tenureFile lies beside the data.
const tenureFile = "tenure.json"

// volume keeps what must outlive the agent. It implements tenure.Volume.
type volume struct{ folder string }

// Load implements tenure.Volume.
func (v volume) Load() (tenure.Stored, error) {
	document, err := os.ReadFile(filepath.Join(v.folder, tenureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return tenure.Stored{}, nil
	}
	if err != nil {
		return tenure.Stored{}, fmt.Errorf("read what is stored of the lease: %w", err)
	}
	return tenure.DecodeStored(document)
}

// Store implements tenure.Volume: the new file takes the place of the old one in one step, and both the file and its
// name outlive a loss of power. On a full volume there is a reserve for it: without a fence that is stored, a member
// could not answer an election.
func (v volume) Store(stored tenure.Stored) error {
	document, err := stored.Encode()
	if err != nil {
		return err
	}
	return server.WithReserve(v.folder, func() error { return v.write(document) })
}

func (v volume) write(document []byte) error {
	place := filepath.Join(v.folder, tenureFile)
	draft, err := os.OpenFile(place+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = draft.Write(document)
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(draft.Name(), place); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	folder, err := os.Open(v.folder)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// wishes reads the settings. It implements tenure.Wishes.
type wishes struct {
	read func() (wire.Settings, error)

	mutex    sync.Mutex
	settings wire.Settings
	known    bool
	again    time.Time
}

// Times of the lease, and how often the settings are looked at.
const (
	defaultDuration = 10 * time.Second
	longestRenew    = 2 * time.Second
	longestMargin   = 2 * time.Second
	wishesEvery     = time.Second
)

// Look implements tenure.Wishes. Settings that cannot be read leave those before in force.
func (w *wishes) Look() (string, tenure.Policy) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if now := time.Now(); !w.known || now.After(w.again) {
		w.again = now.Add(wishesEvery)
		if settings, err := w.read(); err == nil {
			w.settings, w.known = settings, true
		}
	}
	return w.settings.DatabaseUID, policyOf(w.settings, w.known)
}

func policyOf(settings wire.Settings, known bool) tenure.Policy {
	duration := time.Duration(settings.LeaseMilliseconds) * time.Millisecond
	if duration <= 0 {
		duration = defaultDuration
	}
	policy := tenure.Policy{
		Known: known && settings.LeaseUID != "", LeaseUID: settings.LeaseUID, Initialised: settings.Initialised,
		Durability: tenure.Durability(settings.Durability), Instances: settings.Instances, Duration: duration,
		Renew: min(longestRenew, duration/5), Margin: min(longestMargin, duration/5),
		MaxFailoverLag: uint64(max(settings.MaxFailoverLagBytes, 0)),
	}
	if policy.Durability == "" {
		policy.Durability = tenure.Strict
	}
	return policy
}
