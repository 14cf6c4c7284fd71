// Command sandbox runs a real multi-node Kubernetes on one Linux machine without Docker, and breaks it on request.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/sandbox/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1) //nolint:gocritic // Nothing is left to release.
	}
}

// settings are the flags that all commands share.
type settings struct {
	dir string
}

func (s *settings) open() *cluster.Cluster { return cluster.Open(s.dir) }

func root() *cobra.Command {
	shared := &settings{}
	cmd := &cobra.Command{
		Use:           "sandbox",
		Short:         "A real multi-node Kubernetes on one machine, and the faults to test it with",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := os.Getenv("MERIDIAN_SANDBOX_DIR")
	if dir == "" {
		dir = cluster.DefaultDir
	}
	cmd.PersistentFlags().StringVar(&shared.dir, "dir", dir, "folder of the sandbox's state (also MERIDIAN_SANDBOX_DIR)")
	cmd.AddCommand(upCommand(shared), downCommand(shared), statusCommand(shared), kubeconfigCommand(shared),
		kubectlCommand(shared), partsCommand(), imageCommand(shared), nodeCommand(shared), apiServerCommand(shared),
		etcdCommand(shared), volumeCommand(shared))
	cmd.AddCommand(hiddenCommands()...)
	return cmd
}

// cacheDir is where built parts and images are kept, outside of any checkout.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(dir, "meridian"), nil
}
