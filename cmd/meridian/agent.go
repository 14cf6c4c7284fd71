package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/wire"
)

// agentCommand is the same for every engine, so that a pod differs in one word.
func agentCommand() *cobra.Command {
	engine := ""
	database := agent.Options{}
	database.Environment(os.Getenv)
	cache := agent.CacheOptions{Cache: os.Getenv(wire.EnvCache), Groups: "/sys/fs/cgroup"}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run one server; the first process of the container of a database or a cache",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch engine {
			case "postgres":
				database.Log = cmd.OutOrStdout()
				return agent.Run(cmd.Context(), database)
			case "redis":
				cache.Options = database
				cache.Log = cmd.OutOrStdout()
				return agent.RunCache(cmd.Context(), cache)
			default:
				return fmt.Errorf("--engine: %q is unknown; use postgres or redis", engine)
			}
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&engine, "engine", "postgres", "what runs beside the agent: postgres, or redis, which is also Valkey")
	flags.StringVar(&database.Volume, "volume", wire.FolderVolume, "folder of the volume of a database")
	flags.StringVar(&database.Runtime, "run", wire.FolderRun, "folder of the socket")
	flags.StringVar(&database.Settings, "settings", wire.FolderSettings, "folder of the settings")
	flags.StringVar(&database.App, "app", wire.FolderApp, "folder of the application's Secret")
	flags.StringVar(&database.TLS, "tls", wire.FolderTLS, "folder of the certificate")
	flags.StringVar(&database.Backup, "backup", wire.FolderBackup, "folder of the credentials and keys of backups")
	flags.StringVar(&database.BackupClaim, "backup-claim", wire.FolderBackupClaim, "folder of a repository on a claim")
	flags.StringVar(&database.Restore, "restore", wire.FolderRestore, "folder of the credentials and keys of a restore")
	flags.StringVar(&database.RestoreClaim, "restore-claim", wire.FolderRestoreClaim,
		"folder of the repository on a claim that is restored from")
	flags.StringVar(&database.ReportAddress, "report-address", fmt.Sprintf(":%d", wire.PortAgent),
		"address of the report, with mutual TLS")
	flags.StringVar(&database.ProbeAddress, "probe-address", fmt.Sprintf(":%d", wire.PortProbe), "address of the probes")
	flags.DurationVar(&database.Fast, "stop-fast", 20*time.Second,
		"how long PostgreSQL may take to end sessions and write a checkpoint when the pod ends")
	flags.DurationVar(&database.Immediate, "stop-immediate", 5*time.Second,
		"how long PostgreSQL may take to end without a checkpoint, after that, before it is killed")
	flags.DurationVar(&cache.Stop, "stop-cache", 10*time.Second,
		"how long the server of a cache may take to end when the pod ends, before it is killed")
	flags.IntVar(&cache.Port, "cache-port", wire.PortCache, "port of the server of a cache")
	return cmd
}

func installCommand() *cobra.Command {
	accounts := ""
	cmd := &cobra.Command{
		Use:   "install TARGET",
		Short: "Copy this binary to TARGET, for a container of another image to run",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			own, err := os.Executable()
			if err != nil {
				return fmt.Errorf("install: %w", err)
			}
			if accounts != "" {
				if err := agent.NameUser(accounts); err != nil {
					return err
				}
			}
			return agent.Install(own, args[0])
		},
	}
	cmd.Flags().StringVar(&accounts, "name-user", "", "where to write a list of accounts that has a name for this one")
	return cmd
}
