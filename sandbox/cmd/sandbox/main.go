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
	"meridian.dev/meridian/sandbox/preflight"
)

func main() {
	// The tools of a sandbox are often not in the PATH of somebody who became root.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin"); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1) //nolint:gocritic // Nothing is left to release.
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sandbox",
		Short:         "A real multi-node Kubernetes on one machine, and the faults to test it with",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(statusCommand(), kubeconfigCommand(), kubectlCommand(), partsCommand(), imageCommand())
	cmd.AddCommand(asRoot(upCommand(), downCommand(), nodeCommand(), apiServerCommand(), etcdCommand(),
		volumeCommand())...)
	cmd.AddCommand(hiddenCommands()...)
	return cmd
}

// asRoot makes commands, and all below them, refuse at once to work for anybody else.
func asRoot(commands ...*cobra.Command) []*cobra.Command {
	for _, command := range commands {
		command.PersistentPreRunE = func(*cobra.Command, []string) error { return preflight.Root() }
	}
	return commands
}

// open returns the sandbox, which tells what it does with the time since now.
func open() *cluster.Cluster {
	sandbox := cluster.Open()
	sandbox.Say = teller()
	return sandbox
}

// cacheDir is where built parts and images are kept, outside of any checkout.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(dir, "meridian"), nil
}
