package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// Mounts are the folders that objects of the operator are mounted at.
type Mounts struct {
	SettingsFolder, AppFolder, TLSFolder string
	// Installed is where PostgreSQL reads the certificate. Its files have an owner and a mode that PostgreSQL accepts,
	// which those of a mount need not have.
	Installed string
	Host      string // The name of this instance, which the certificate must have; empty for any.
}

// Settings implements postgres.Mounts.
func (m *Mounts) Settings() (wire.Settings, error) {
	document, err := os.ReadFile(filepath.Join(m.SettingsFolder, wire.KeySettings))
	if err != nil {
		return wire.Settings{}, err
	}
	return wire.DecodeSettings(document)
}

// Logins implements postgres.Mounts. The kubelet replaces all files at once: what was read across that is read again.
func (m *Mounts) Logins() (postgres.Logins, error) {
	for {
		before, _ := os.Readlink(filepath.Join(m.AppFolder, "..data"))
		logins, err := m.readLogins()
		if after, _ := os.Readlink(filepath.Join(m.AppFolder, "..data")); after == before {
			return logins, err
		}
	}
}

func (m *Mounts) readLogins() (postgres.Logins, error) {
	var logins postgres.Logins
	var err error
	logins.Present.Password, err = m.password(wire.KeyPassword)
	if err != nil {
		return postgres.Logins{}, err
	}
	// Before there were two logins, nobody read the name, and there was no number.
	logins.Present.Name, _ = m.text(wire.KeyUsername)
	logins.Present.Rotation = m.number(wire.KeyRotation)
	next := postgres.Login{Rotation: m.number(wire.KeyNextRotation)}
	if next.Rotation == 0 {
		return logins, nil
	}
	if next.Name, err = m.text(wire.KeyNextUsername); err != nil {
		return postgres.Logins{}, err
	}
	if next.Password, err = m.password(wire.KeyNextPassword); err != nil {
		return postgres.Logins{}, err
	}
	logins.Next = &next
	return logins, nil
}

func (m *Mounts) text(key string) (string, error) {
	content, err := os.ReadFile(filepath.Join(m.AppFolder, key))
	if err != nil {
		return "", fmt.Errorf("read the application's %s: %w", key, err)
	}
	return string(content), nil
}

// number is 0 when there is none.
func (m *Mounts) number(key string) int64 {
	text, _ := m.text(key)
	number, _ := strconv.ParseInt(text, 10, 64)
	return max(number, 0)
}

func (m *Mounts) password(key string) (string, error) {
	password, err := m.text(key)
	if err != nil {
		return "", err
	}
	// Other characters are normalised differently by different clients, so that none but the first could log in.
	unusual := func(r rune) bool { return r < ' ' || r > '~' }
	if password == "" || strings.ContainsFunc(password, unusual) {
		return "", errors.New("read the application's password: it must be printable ASCII characters, at least one")
	}
	return password, nil
}

// tlsFiles are in the order of their names in Material.
var tlsFiles = [...]string{wire.KeyCertificate, wire.KeyPrivateKey, wire.KeyAuthority}

type tlsContent [len(tlsFiles)][]byte

func readTLS(folder string) (tlsContent, error) {
	var content tlsContent
	for index, name := range tlsFiles {
		var err error
		if content[index], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			return tlsContent{}, err
		}
	}
	return content, nil
}

// identity is a hash over all three files.
func (c tlsContent) identity() string {
	return wire.CertificateIdentity(c[0], c[1], c[2])
}

// Material is what the agent presents: what is mounted; or, while that cannot be used, what PostgreSQL reads.
func (m *Mounts) Material() (pki.Material, error) {
	_, mounted, err := m.usable(m.TLSFolder)
	if _, installed, problem := m.usable(m.Installed); err != nil && problem == nil {
		return installed, nil
	}
	return mounted, err
}

// usable reads a certificate whose key fits, and which is for this instance: peers would refuse that of another one.
func (m *Mounts) usable(folder string) (content tlsContent, material pki.Material, err error) {
	if content, err = readTLS(folder); err == nil {
		material, err = pki.DecodeMaterialFor(m.Host, content[0], content[1], content[2])
	}
	return content, material, err
}

// Certificate implements postgres.Mounts.
func (m *Mounts) Certificate() postgres.Certificate {
	var certificate postgres.Certificate
	content, _, err := m.usable(m.TLSFolder)
	if err != nil {
		certificate.Problem = err.Error()
	} else {
		certificate.Mounted = content.identity()
	}
	if installed, err := readTLS(m.Installed); err == nil {
		certificate.Installed = installed.identity()
	}
	lent, _ := filepath.Glob(filepath.Join(filepath.Dir(m.Installed), render.KeyPrefix+"*"))
	for _, folder := range lent {
		if content, err := readTLS(folder); err == nil && content.identity() == certificate.Installed {
			certificate.Lent = append(certificate.Lent, filepath.Base(folder))
		}
	}
	return certificate
}

// InstallCertificate implements postgres.Mounts. A server that reads the files between two of the writes keeps what it
// has, and reads again when it is told to after the last.
func (m *Mounts) InstallCertificate(identity string) error {
	content, err := readTLS(m.TLSFolder)
	if err != nil {
		return fmt.Errorf("install the certificate: %w", err)
	}
	if content.identity() != identity {
		return errors.New("install the certificate: it has changed in the meantime")
	}
	if err := os.Mkdir(m.Installed, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("install the certificate: %w", err)
	}
	for index, name := range tlsFiles {
		if err := writeDurably(filepath.Join(m.Installed, name), content[index], 0o600); err != nil {
			return fmt.Errorf("install the certificate: %w", err)
		}
	}
	return nil
}

// LendKey implements postgres.Mounts. The files are copies of those that are installed.
func (m *Mounts) LendKey(name string) error {
	content, err := readTLS(m.Installed)
	if err != nil {
		return fmt.Errorf("lend the key: %w", err)
	}
	folder := filepath.Join(filepath.Dir(m.Installed), name)
	lent, err := readTLS(folder)
	if err != nil || lent.identity() != content.identity() {
		if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("lend the key: %w", err)
		}
		for index, name := range tlsFiles {
			if err := writeDurably(filepath.Join(folder, name), content[index], 0o600); err != nil {
				return fmt.Errorf("lend the key: %w", err)
			}
		}
	}
	return m.takeBack(folder)
}

// TakeKeysBack implements postgres.Mounts.
func (m *Mounts) TakeKeysBack() error { return m.takeBack("") }

func (m *Mounts) takeBack(but string) error {
	lent, err := filepath.Glob(filepath.Join(filepath.Dir(m.Installed), render.KeyPrefix+"*"))
	if err != nil {
		return fmt.Errorf("take back what was lent: %w", err)
	}
	for _, folder := range lent {
		if folder == but {
			continue
		}
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("take back what was lent: %w", err)
		}
	}
	return nil
}
