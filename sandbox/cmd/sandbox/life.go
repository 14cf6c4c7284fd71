package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/sandbox/cluster"
	"meridian.dev/meridian/sandbox/network"
	"meridian.dev/meridian/sandbox/parts"
	"meridian.dev/meridian/sandbox/preflight"
)

// teller prints lines with the time since its start.
func teller() func(string) {
	start := time.Now()
	return func(line string) {
		fmt.Printf("[%6.1fs] %s\n", time.Since(start).Seconds(), line)
	}
}

func upCommand() *cobra.Command {
	var options cluster.Options
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the sandbox, or bring what is there back to its full state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), options, kubeconfig)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&options.Nodes, "nodes", 3, fmt.Sprintf("number of nodes, 1 to %d", network.MaxNodes))
	flags.StringVar(&options.Kubernetes, "kubernetes", parts.DefaultKubernetes,
		"Kubernetes version, one of "+strings.Join(parts.KubernetesVersions(), ", ")+", or its minor")
	flags.BoolVar(&options.Fast, "fast", false, "notice lost nodes in about 11 s instead of 50 s, for quick tests")
	flags.StringVar(&kubeconfig, "kubeconfig", ".sandbox/kubeconfig", "where to put a copy of the kubeconfig")
	flags.StringVar(&options.RecipesDir, "images", "images", "folder with the recipes of the images that the nodes get")
	flags.StringSliceVar(&options.Only, "only", nil,
		"build only these images; what the cache has comes along (default all, as a later 'sandbox up' will)")
	return cmd
}

func up(ctx context.Context, options cluster.Options, kubeconfig string) (err error) {
	start, say := time.Now(), teller()
	if options.CacheDir, err = cacheDir(); err != nil {
		return err
	}
	paths := preflight.Paths{State: cluster.Dir, Cache: options.CacheDir, Recipes: options.RecipesDir}
	if err := preflight.Check(ctx, paths, say); err != nil {
		return err
	}
	if options.Binary, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	sandbox := cluster.Open()
	sandbox.Say = say
	if err := sandbox.Up(ctx, options); err != nil {
		return err
	}
	if err := copyKubeconfig(sandbox.Kubeconfig(), kubeconfig); err != nil {
		return err
	}
	say(fmt.Sprintf("the sandbox is up after %s; try: bin/sandbox kubectl get nodes, or export KUBECONFIG=%s",
		time.Since(start).Round(time.Second), kubeconfig))
	return nil
}

func copyKubeconfig(source, target string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("make folder of kubeconfig: %w", err)
	}
	if err := os.WriteFile(target, content, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return giveToCaller(target)
}

// giveToCaller makes the file that of whoever called sudo: they are going to use it.
func giveToCaller(file string) error {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil {
		return nil //nolint:nilerr // Not called through sudo.
	}
	for _, path := range []string{filepath.Dir(file), file} {
		if err := os.Chown(path, uid, -1); err != nil {
			return fmt.Errorf("hand the kubeconfig over: %w", err)
		}
	}
	return nil
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the sandbox and remove all of it, data included",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			start := time.Now()
			if err := open().Down(cmd.Context()); err != nil {
				return err
			}
			fmt.Printf("the sandbox is gone, after %.1f s\n", time.Since(start).Seconds())
			return nil
		},
	}
}

func statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show machines, faults and services that are not well",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := open().Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(status)
			}
			fmt.Println(status.Config)
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(table, "MACHINE\tADDRESS\tSTATE\tNOT WELL")
			for _, machine := range status.Machines {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", machine.Name, machine.Address, machine.State,
					strings.Join(machine.Services, ", "))
			}
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			content, err := os.ReadFile(open().Kubeconfig())
			if err != nil {
				return fmt.Errorf("read kubeconfig (is the sandbox up?): %w", err)
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
}

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl …",
		Short:              "Run the kubectl that fits the cluster",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			sandbox := open()
			env := with(os.Environ(), "KUBECONFIG", sandbox.Kubeconfig())
			// Plugins lie beside this program, and they call kubectl in turn.
			if self, err := os.Executable(); err == nil {
				env = with(env, "PATH", strings.Join([]string{filepath.Dir(self), os.Getenv("PATH"),
					filepath.Dir(sandbox.Kubectl())}, string(os.PathListSeparator)))
			}
			if err := syscall.Exec(sandbox.Kubectl(), append([]string{"kubectl"}, args...), env); err != nil {
				return fmt.Errorf("run kubectl (is the sandbox up?): %w", err)
			}
			return nil
		},
	}
}

// with sets a variable. One that is there twice would be read from its first place.
func with(environment []string, name, value string) []string {
	others := slices.DeleteFunc(environment, func(one string) bool { return strings.HasPrefix(one, name+"=") })
	return append(others, name+"="+value)
}

func partsCommand() *cobra.Command {
	version, all := parts.DefaultKubernetes, false
	cmd := &cobra.Command{
		Use:   "parts",
		Short: "Build the programs of Kubernetes, if they are not, and print the folder they are in",
		Long: "Build the programs of Kubernetes, if they are not, and print the folder they are in: etcd, kube-apiserver,\n" +
			"kubectl and the others, for tests that need an API server but no nodes. Needs no root.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			part, err := parts.Kubernetes(version)
			if err != nil {
				return err
			}
			cache, err := cacheDir()
			if err != nil {
				return err
			}
			dir, err := parts.Build(cmd.Context(), cache, part)
			for _, other := range []parts.Part{parts.Containerd(), parts.CoreDNS()} {
				if all && err == nil {
					_, err = parts.Build(cmd.Context(), cache, other)
				}
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&version, "kubernetes", version, "Kubernetes version")
	cmd.Flags().BoolVar(&all, "all", false, "build what the nodes run too, containerd and CoreDNS")
	return cmd
}
