// Package open makes a repository usable from what the operator says of it and from what is mounted: credentials and
// keys are files, and are read at each use, so that they are replaced without a restart.
//
// Start reading at Opener.
package open

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/cloud"
	"meridian.dev/meridian/internal/wire"
)

// Opener opens repositories. It may be used by several goroutines.
type Opener struct {
	// Folder has credentials and keys, Claim is where the claim of a repository is mounted.
	Folder, Claim string

	mutex sync.Mutex
	known wire.Repository
	store store.Store
}

// Repository is the one at a root, with the keys that are mounted now.
func (o *Opener) Repository(settings wire.Repository, root string) (*repository.Repository, error) {
	found, err := o.Store(settings)
	if err != nil {
		return nil, err
	}
	keys, err := o.keys(settings)
	if err != nil {
		return nil, err
	}
	return &repository.Repository{Store: found, Root: root, Keys: keys}, nil
}

// Store is where the objects are. It stays the same while the settings do; what it needs of credentials it reads anew.
func (o *Opener) Store(settings wire.Repository) (store.Store, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.store != nil && same(o.known, settings) {
		return o.store, nil
	}
	found, err := cloud.Open(cloud.Location{Repository: settings, Credentials: o.Folder, Claim: o.Claim})
	if err != nil {
		return nil, err
	}
	o.known, o.store = settings, found
	return found, nil
}

// keys reads the identities. A repository that is to be encrypted is not used without.
func (o *Opener) keys(settings wire.Repository) (seal.Keys, error) {
	if !settings.Encrypted {
		return seal.Keys{}, nil
	}
	text, err := os.ReadFile(filepath.Join(o.Folder, wire.KeyBackupIdentities))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return seal.Keys{}, fmt.Errorf("read the keys: %w", err)
	}
	keys, problem := seal.ParseKeys(string(text))
	switch {
	case err != nil:
		return seal.Keys{}, fmt.Errorf("read the keys: %w: no key is mounted", seal.ErrKeyWrong)
	case problem != nil:
		return seal.Keys{}, fmt.Errorf("read the keys: %w: the file %s has no age identity that can be written to",
			seal.ErrKeyWrong, wire.KeyBackupIdentities) // The parser's own words may quote a part of a key.
	case keys.Suffix() == seal.Compressed:
		return seal.Keys{}, fmt.Errorf("read the keys: %w: the file %s is empty", seal.ErrKeyWrong, wire.KeyBackupIdentities)
	}
	return keys, nil
}

func same(a, b wire.Repository) bool {
	return equal(a.S3, b.S3) && equal(a.GCS, b.GCS) && equal(a.Azure, b.Azure) && equal(a.Claim, b.Claim)
}

func equal[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
