// Package cloud has the drivers for S3, GCS and Azure. They speak HTTP themselves: a handful of requests each, where
// the condition of a write and the memory of a part are the point. No request is repeated behind the caller's back:
// what one did whose answer was lost would come back as Exists. ADR 41 has the comparison with the libraries.
//
// Credentials are files, and are read again for each request. Start reading at Open; all of them write as putIfAbsent
// says.
package cloud

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// Location is where a store is, and where on this machine what it needs is mounted.
type Location struct {
	wire.Repository
	// Credentials is the folder with the files of the credentials.
	Credentials string
	// Claim is where the claim of the repository is mounted.
	Claim string
}

// Names of the files that credentials are read from.
const (
	AccessKeyIDFile     = wire.KeyS3AccessKey
	SecretAccessKeyFile = wire.KeyS3SecretKey
	SessionTokenFile    = wire.KeyS3SessionToken
	ServiceAccountFile  = wire.KeyGCSCredentials
	AccountKeyFile      = wire.KeyAzureKey
	SignatureFile       = wire.KeyAzureSAS
	AuthorityFile       = wire.KeyStoreAuthority
)

// Open gives the driver of a location. It asks nobody: the first contact does.
func Open(location Location) (store.Store, error) {
	if err := location.Check(); err != nil {
		return nil, fmt.Errorf("open a store: %w", err)
	}
	link := &link{files: files{folder: location.Credentials}}
	switch {
	case location.S3 != nil:
		return openS3(*location.S3, link)
	case location.GCS != nil:
		return openGCS(*location.GCS, link)
	case location.Azure != nil:
		return openAzure(*location.Azure, link)
	}
	return store.Folder{Path: location.Claim}, nil
}

// endpoint understands a URL, or takes the usual one.
func endpoint(given, usual string) (*url.URL, error) {
	if given == "" {
		given = usual
	}
	parsed, err := url.Parse(strings.TrimSuffix(given, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("open a store: endpoint: %w", err)
	case parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Host == "", parsed.RawQuery != "", parsed.User != nil:
		return nil, errors.New("open a store: endpoint: it is no URL such as https://s3.example.org")
	}
	return parsed, nil
}

// files are the credentials.
type files struct{ folder string }

// read reads files as they are at one time: a mounted Secret is exchanged as a whole, by a link to a folder. Files that
// are not there are empty.
func (f files) read(names ...string) (map[string]string, error) {
	if f.folder == "" {
		return map[string]string{}, nil
	}
	folder := filepath.Join(f.folder, "..data")
	if _, err := os.Stat(folder); err != nil {
		folder = f.folder
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, &store.Error{Class: store.CredentialsRefused, Doing: "read the credentials", Err: err}
	}
	defer func() { _ = root.Close() }()
	found := map[string]string{}
	for _, name := range names {
		content, err := root.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, &store.Error{Class: store.CredentialsRefused, Doing: "read the credentials", Err: err}
		}
		if text := strings.TrimSpace(string(content)); text != "" {
			found[name] = text
		}
	}
	return found, nil
}

// missing refuses credentials that are not complete.
func missing(names string) error {
	return &store.Error{
		Class: store.CredentialsRefused, Doing: "read the credentials", Err: fmt.Errorf("there is no %s in them", names),
	}
}
