package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Install copies a program so that whoever starts the copy gets all of it or none.
func Install(source, target string) error {
	program, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer func() { _ = program.Close() }()
	draft, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer func() { _ = os.Remove(draft.Name()) }()
	_, err = io.Copy(draft, program)
	if err := errors.Join(err, draft.Chmod(0o755), draft.Sync(), draft.Close()); err != nil {
		return fmt.Errorf("install %s: %w", target, err)
	}
	if err := os.Rename(draft.Name(), target); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return nil
}

// NameUser writes a list of accounts in which the one of this process has a name, for an image that does not know it:
// initdb does not run without one.
func NameUser(list string) error {
	content := fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\npostgres:x:%d:%d:PostgreSQL:/:/sbin/nologin\n",
		os.Getuid(), os.Getgid())
	if err := os.WriteFile(list, []byte(content), 0o644); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return nil
}
