package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/backup/open"
	"meridian.dev/meridian/internal/backup/shelf"
	"meridian.dev/meridian/internal/wire"
)

// backupsCommand is what `kubectl meridian backups` runs in a pod of the database, where the credentials are.
func backupsCommand() *cobra.Command {
	var settings, credentials, claim, lock string
	open := func() (shelf.Shelf, error) { return openShelf(settings, credentials, claim, lock) }
	cmd := &cobra.Command{
		Use:   "backups",
		Short: "Look at the base backups of the database of this pod, or delete one; for the plugin",
		Args:  cobra.NoArgs,
	}
	list := &cobra.Command{
		Use: "list", Short: "Print the base backups as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := open()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			told, err := found.List(ctx)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(told)
		},
	}
	remove := &cobra.Command{
		Use: "delete ID", Short: "Delete a base backup that is not needed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := open()
			if err != nil {
				return err
			}
			return found.Delete(context.WithoutCancel(cmd.Context()), args[0])
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&settings, "settings", wire.FolderSettings, "folder with the settings of backups")
	flags.StringVar(&credentials, "credentials", wire.FolderBackup, "folder with credentials and keys")
	flags.StringVar(&claim, "claim", wire.FolderBackupClaim, "where the claim of the repository is mounted")
	flags.StringVar(&lock, "lock", filepath.Join(wire.FolderRun, "backups.lock"), "file that one deletion has at a time")
	cmd.AddCommand(list, remove)
	return cmd
}

func openShelf(settings, credentials, claim, lock string) (shelf.Shelf, error) {
	document, err := os.ReadFile(filepath.Join(settings, wire.KeyBackup))
	if errors.Is(err, fs.ErrNotExist) {
		return shelf.Shelf{}, errors.New("the database has no backups: this pod is told of no repository (spec.backup)")
	}
	if err != nil {
		return shelf.Shelf{}, fmt.Errorf("read the settings of backups: %w", err)
	}
	decoded, err := wire.DecodeBackupSettings(document)
	if err != nil {
		return shelf.Shelf{}, err
	}
	opener := &open.Opener{Folder: credentials, Claim: claim}
	return shelf.Shelf{Settings: decoded, Open: opener.Repository, Lock: lock}, nil
}
