package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// Mounts are the folders that objects of the operator are mounted at.
type Mounts struct {
	SettingsFolder, AppFolder, TLSFolder string
	// Installed is where the server reads the certificate. A mount is replaced as a whole at any moment, between two
	// reads of the server; the copy is not.
	Installed string

	mutex            sync.Mutex
	application, own remembered
}

// remembered is a password that was read more than once.
type remembered struct {
	present, former string
	changed         time.Time
}

// read takes the password that is mounted now, and forgets the one before in time.
func (r *remembered) read(present string) {
	if present != r.present {
		r.present, r.former, r.changed = present, r.present, time.Now()
	}
	if time.Since(r.changed) > formerLasts {
		r.former = ""
	}
}

// formerLasts is how long the password of before is remembered: kubelets bring a new one to all pods within minutes.
// After that it opens nothing any more. It is for instances among each other; applications need the present one, so no
// clock keeps them out. It is counted from one reading of the process's own clock to another, which a step of the wall
// clock does not change.
const formerLasts = 10 * time.Minute

// Settings implements redis.Mounts.
func (m *Mounts) Settings() (wire.CacheSettings, error) {
	document, err := os.ReadFile(filepath.Join(m.SettingsFolder, wire.KeySettings))
	if err != nil {
		return wire.CacheSettings{}, err
	}
	return wire.DecodeCacheSettings(document)
}

// Passwords implements redis.Mounts. Its errors tell nothing of what was read. Those beside the certificate are absent
// in a cache of an earlier version.
func (m *Mounts) Passwords() (redis.Passwords, error) {
	present, err := readPassword(m.AppFolder, wire.KeyPassword)
	if err == nil && present == "" {
		err = errors.New("read password: it must be one line, and not empty")
	}
	if err != nil {
		return redis.Passwords{}, err
	}
	var own, next, previous, number string
	for _, file := range []struct {
		key  string
		into *string
	}{
		// The number first: a mount that changes between two reads then shows passwords too new, never too old for it.
		{wire.KeyNextRotation, &number},
		{wire.KeyReplicationPassword, &own}, {wire.KeyNextPassword, &next}, {wire.KeyPreviousPassword, &previous},
	} {
		if *file.into, err = readPassword(m.TLSFolder, file.key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return redis.Passwords{}, err
		}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.application.read(present)
	if own != "" || m.own.present == "" {
		m.own.read(own)
	} // Else it was taken out, and another comes: until then the one that was there counts.
	passwords := redis.Passwords{
		Present: present, Former: m.application.former, Own: m.own.present, OwnFormer: m.own.former,
	}
	if present != next && present != previous {
		return passwords, nil // Somebody wrote another password by hand: it alone counts, until the next rotation.
	}
	passwords.Next, passwords.Previous = next, previous
	passwords.Rotation, _ = strconv.ParseInt(number, 10, 64) // One that is no number was never begun.
	return passwords, nil
}

func readPassword(folder, key string) (string, error) {
	content, err := os.ReadFile(filepath.Join(folder, key))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	if bytes.ContainsAny(content, "\x00\r\n") {
		return "", fmt.Errorf("read %s: it must be one line", key)
	}
	return string(content), nil
}

// pair is a certificate with its key and the authorities, as files.
type pair [3][]byte

var pairFiles = [...]string{wire.KeyCertificate, wire.KeyPrivateKey, wire.KeyAuthority}

func readPair(folder string) (pair, error) {
	var content pair
	for i, name := range pairFiles {
		var err error
		if content[i], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			return pair{}, err
		}
	}
	return content, nil
}

func (p pair) material() (pki.Material, error) { return pki.DecodeMaterial(p[0], p[1], p[2]) }

// identity is a short name for all three.
func (p pair) identity() string { return wire.CertificateIdentity(p[0], p[1], p[2]) }

// leaf is the identity of what clients get to see.
func (p pair) leaf() string {
	block, _ := pem.Decode(p[0])
	if block == nil {
		return ""
	}
	return leafIdentity(block.Bytes)
}

func leafIdentity(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:8])
}

// Material reads what is mounted, for the agent's own server. It fails while certificate and key do not fit.
func (m *Mounts) Material() (pki.Material, error) {
	content, err := readPair(m.TLSFolder)
	if err != nil {
		return pki.Material{}, err
	}
	return content.material()
}

// Certificate implements redis.Mounts.
func (m *Mounts) Certificate() redis.Certificate {
	var facts redis.Certificate
	content, err := readPair(m.TLSFolder)
	if err == nil {
		_, err = content.material()
	}
	if err != nil {
		facts.Problem = err.Error()
	} else {
		facts.Mounted = content.identity()
	}
	if installed, err := readPair(m.Installed); err == nil {
		facts.Installed, facts.Leaf = installed.identity(), installed.leaf()
	}
	return facts
}

// InstallCertificate implements redis.Mounts. The server reads only when it is told to, after the last of the writes.
func (m *Mounts) InstallCertificate(identity string) error {
	content, err := readPair(m.TLSFolder)
	switch {
	case err != nil:
		return fmt.Errorf("install the certificate: %w", err)
	case content.identity() != identity:
		return errors.New("install the certificate: it has changed in the meantime")
	}
	if err := os.Mkdir(m.Installed, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("install the certificate: %w", err)
	}
	for i, name := range pairFiles {
		if err := replaceFile(filepath.Join(m.Installed, name), content[i]); err != nil {
			return fmt.Errorf("install the certificate: %w", err)
		}
	}
	return nil
}

// replaceFile writes a file that nobody else may read, as a whole. It need not outlive the pod.
func replaceFile(path string, content []byte) error {
	draft := path + ".new"
	if err := os.WriteFile(draft, content, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
