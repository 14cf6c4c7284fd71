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
