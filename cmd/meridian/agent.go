package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/wire"
)

func agentCommand() *cobra.Command {
	options := agent.Options{
		Database: os.Getenv(wire.EnvDatabase), Instance: os.Getenv(wire.EnvInstance), Path: os.Getenv("PATH"),
	}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run one PostgreSQL server; the first process of a database container",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Log = cmd.OutOrStdout()
			return agent.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Volume, "volume", wire.FolderVolume, "folder of the volume")
	flags.StringVar(&options.Runtime, "run", wire.FolderRun, "folder of the socket")
	flags.StringVar(&options.Settings, "settings", wire.FolderSettings, "folder of the settings")
	flags.StringVar(&options.App, "app", wire.FolderApp, "folder of the application's Secret")
	flags.StringVar(&options.TLS, "tls", wire.FolderTLS, "folder of the certificate")
	flags.StringVar(&options.ReportAddress, "report-address", fmt.Sprintf(":%d", wire.PortAgent),
		"address of the report, with mutual TLS")
	flags.StringVar(&options.ProbeAddress, "probe-address", fmt.Sprintf(":%d", wire.PortProbe), "address of the probes")
	flags.DurationVar(&options.Fast, "stop-fast", 20*time.Second,
		"how long PostgreSQL may take to end sessions and write a checkpoint when the pod ends")
	flags.DurationVar(&options.Immediate, "stop-immediate", 5*time.Second,
		"how long PostgreSQL may take to end without a checkpoint, after that, before it is killed")
	return cmd
}

func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install TARGET",
		Short: "Copy this binary to TARGET, for a container of another image to run",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			own, err := os.Executable()
			if err != nil {
				return fmt.Errorf("install: %w", err)
			}
			return agent.Install(own, args[0])
		},
	}
}
