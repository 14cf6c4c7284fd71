package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/call"
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

// wishes reads the settings, those of another engine in the words of a database's. It implements tenure.Wishes.
type wishes struct {
	read func() (wire.Settings, error)
	// volatile says that the server keeps its data in memory.
	volatile bool

	mutex    sync.Mutex
	settings wire.Settings
	known    bool
	again    time.Time
}

// Times of the lease, and how often the settings are looked at.
const (
	defaultDuration = 10 * time.Second
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
	return w.settings.DatabaseUID, PolicyOf(w.settings, w.known, w.volatile)
}

// PolicyOf is what settings say to the loop of package tenure.
func PolicyOf(settings wire.Settings, known, volatile bool) tenure.Policy {
	duration := time.Duration(settings.LeaseMilliseconds) * time.Millisecond
	if duration <= 0 {
		duration = defaultDuration
	}
	policy := tenure.Policy{
		Known: known && settings.LeaseUID != "", LeaseUID: settings.LeaseUID, Initialised: settings.Initialised,
		Durability: tenure.Durability(settings.Durability), Instances: settings.Instances,
		MaxFailoverLag: uint64(max(settings.MaxFailoverLagBytes, 0)), Volatile: volatile,
	}
	if policy.Durability == "" {
		policy.Durability = tenure.Strict
	}
	return policy.For(duration)
}

// claims finds out which claim the own volume has come with, by a live read when the agent starts. The settings are of
// no use for that: they may be older than the pod, and the operator may be away.
//
// A pod keeps its claim for life, so a healthy one costs two reads. It is read again only while the API server does not
// answer, a few times when it refuses (the right to read may be on its way), and while it is not the claim that the
// copy was recorded under: a user may vouch for it at any time.
type claims struct {
	server    *call.Server
	namespace string
	// instance is the name of the claim too, logClaim that of the volume of the log, empty if it has none of its own. pod
	// and podUID are the own pod.
	instance, logClaim, pod, podUID string
	log                             logr.Logger
	// changed is told when there is more to know.
	changed func()

	mutex sync.Mutex
	known postgres.Claim
	again time.Time // When a user's word may be looked for again.
}

const (
	// claimPause is between two reads while a user is waited for.
	claimPause = 5 * time.Second
	// claimRefusals is how often a refusal is taken for one that passes.
	claimRefusals = 8
)

func newClaims(api *call.Server, options Options, log logr.Logger) *claims {
	own := &claims{
		server: api, namespace: options.Namespace, instance: options.Instance, pod: options.Pod, podUID: options.PodUID,
		log: log, changed: func() {}, known: postgres.Claim{Asked: true},
	}
	if options.LogVolume != "" {
		own.logClaim = wire.LogClaim(options.Instance)
	}
	return own
}

// look tells what is known by now. Where it is not the claim that was recorded, a user's word is looked for.
func (c *claims) look(recorded string) postgres.Claim {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := time.Now()
	if recorded != "" && c.known.UID != "" && c.known.UID != recorded && !c.known.Accepted && now.After(c.again) {
		c.again = now.Add(claimPause)
		go func() {
			_, _ = c.readNow(context.Background())
		}()
	}
	return c.known
}

// readNow reads it for somebody who is about to act on it, and keeps what it says.
func (c *claims) readNow(ctx context.Context) (postgres.Claim, error) {
	claim, err := c.read(ctx)
	if err == nil {
		c.tell(claim)
	}
	return claim, err
}

// learn reads until there is an answer. With the first attempt, whatever becomes of it, nobody waits for it any more.
func (c *claims) learn(life context.Context) {
	refused := 0
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		claim, err := c.read(life)
		c.tell(claim)
		if err == nil {
			return
		}
		if code := call.CodeOf(err); code == http.StatusForbidden || code == http.StatusNotFound {
			refused++ // An operator of before gives no right to read it.
		}
		if refused == claimRefusals {
			c.log.Info("going on without knowing the claim of the volume", "error", err.Error())
			return
		}
		select {
		case <-life.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (c *claims) tell(claim postgres.Claim) {
	c.mutex.Lock()
	news := c.known != claim
	c.known = claim
	c.mutex.Unlock()
	if news {
		c.changed()
	}
}

// owned is what is read of an object.
type owned struct {
	Metadata struct {
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// read reads the claim, and then the own pod: as long as that is there, its claim cannot have been replaced. A pod that
// is itself replaced, and does not know it yet, would take the claim of its successor for its own.
func (c *claims) read(ctx context.Context) (postgres.Claim, error) {
	claim, err := c.get(ctx, "persistentvolumeclaims", c.instance)
	if err != nil {
		return postgres.Claim{}, err
	}
	uid := claim.Metadata.UID
	if c.logClaim != "" {
		// Data and log are one copy: if either volume comes with another claim, it may be an older state.
		log, err := c.get(ctx, "persistentvolumeclaims", c.logClaim)
		if err != nil {
			return postgres.Claim{}, err
		}
		uid += "." + log.Metadata.UID
	}
	pod, err := c.get(ctx, "pods", c.pod)
	if err != nil {
		return postgres.Claim{}, err
	}
	if c.podUID != "" && pod.Metadata.UID != c.podUID {
		return postgres.Claim{}, errors.New("this pod was replaced by another one")
	}
	return postgres.Claim{
		UID: uid, Accepted: uid != "" && claim.Metadata.Annotations[wire.AnnotationAcceptCopy] == uid,
	}, nil
}

func (c *claims) get(ctx context.Context, kind, name string) (object owned, err error) {
	body, err := c.server.Do(ctx, call.Request{Method: http.MethodGet, Path: fmt.Sprintf(
		"/api/v1/namespaces/%s/%s/%s", url.PathEscape(c.namespace), kind, url.PathEscape(name))})
	if err != nil {
		return object, err
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return object, fmt.Errorf("decode %s of %s: %w", kind, name, err)
	}
	return object, nil
}
