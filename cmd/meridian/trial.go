package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/backup/trial"
	"meridian.dev/meridian/internal/wire"
)

// trialCommand is what the operator runs in a pod of its own, to see that a backup can be restored.
func trialCommand() *cobra.Command {
	options := trial.Options{Now: time.Now, Path: os.Getenv("PATH")}
	cmd := &cobra.Command{
		Use:   "trial",
		Short: "Restore the latest of a repository on trial, look it through, and end; for a pod of the operator",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			options.Log = logr.FromSlogHandler(slog.NewJSONHandler(cmd.OutOrStdout(), nil))
			return trial.Run(ctx, options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Database, "database", os.Getenv(wire.EnvDatabase), "name of the database")
	flags.StringVar(&options.Namespace, "namespace", os.Getenv(wire.EnvPodNamespace), "namespace of the database")
	flags.StringVar(&options.Settings, "settings", wire.FolderSettings, "folder with the settings of backups")
	flags.StringVar(&options.Credentials, "credentials", wire.FolderBackup, "folder with credentials and keys")
	flags.StringVar(&options.Claim, "claim", wire.FolderBackupClaim, "where the claim of the repository is mounted")
	flags.StringVar(&options.Volume, "volume", wire.FolderVolume, "folder of the volume that is restored on")
	flags.StringVar(&options.Runtime, "run", wire.FolderRun, "folder of sockets")
	flags.StringVar(&options.Result, "result", "/dev/termination-log", "file for the result")
	return cmd
}
