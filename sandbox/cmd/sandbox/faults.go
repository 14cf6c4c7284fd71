package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/sandbox/cluster"
	"meridian.dev/meridian/sandbox/network"
)

// verb makes a command that does one thing to the sandbox, with nothing to say when it worked.
func verb(use, short string, do func(context.Context, *cluster.Cluster) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return do(cmd.Context(), open()) },
	}
}

func nodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Power, network and life of one node"}
	nodeVerb := func(use, short string, do func(context.Context, *cluster.Cluster, int) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " N", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				n, err := strconv.Atoi(strings.TrimPrefix(args[0], "node"))
				if err != nil {
					return fmt.Errorf("%q is no node: give its number, such as 2", args[0])
				}
				return do(cmd.Context(), open(), n)
			},
		}
	}
	from := string(network.All)
	cut := nodeVerb("cut", "Cut the node from others on the network; its processes live on",
		func(ctx context.Context, c *cluster.Cluster, n int) error {
			return c.CutNode(ctx, n, network.From(from))
		})
	cut.Flags().StringVar(&from, "from", from, "whom to cut it from: all, api or peers")
	cmd.AddCommand(cut,
		nodeVerb("heal", "Undo a cut",
			func(ctx context.Context, c *cluster.Cluster, n int) error { return c.HealNode(ctx, n) }),
		nodeVerb("stop", "Power the node off: every process of it ends at once, its disks stay",
			func(ctx context.Context, c *cluster.Cluster, n int) error { return c.StopNode(ctx, n) }),
		nodeVerb("start", "Power the node on and wait until it is Ready",
			func(ctx context.Context, c *cluster.Cluster, n int) error { return c.StartNode(ctx, n) }),
		nodeVerb("freeze", "Stop every process of the node where it is",
			func(ctx context.Context, c *cluster.Cluster, n int) error { return c.FreezeNode(ctx, n) }),
		nodeVerb("thaw", "Undo a freeze",
			func(ctx context.Context, c *cluster.Cluster, n int) error { return c.ThawNode(ctx, n) }),
	)
	return cmd
}

func apiServerCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "apiserver", Short: "Stop or start the API server"}
	cmd.AddCommand(
		verb("stop", "Kill the API server and keep it down",
			func(ctx context.Context, c *cluster.Cluster) error { return c.StopAPIServer(ctx) }),
		verb("start", "Start the API server and wait until it is ready",
			func(ctx context.Context, c *cluster.Cluster) error { return c.StartAPIServer(ctx) }),
	)
	return cmd
}

func etcdCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "etcd", Short: "Restart etcd"}
	cmd.AddCommand(verb("restart", "Kill etcd, which starts again, and wait until the API server is ready",
		func(ctx context.Context, c *cluster.Cluster) error { return c.RestartEtcd(ctx) }))
	return cmd
}

func volumeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "volume", Short: "Lose, fill or hang the volume of a claim"}
	namespace := "default"
	cmd.PersistentFlags().StringVarP(&namespace, "namespace", "n", namespace, "namespace of the claim")
	claimVerb := func(use, short string, do func(context.Context, *cluster.Cluster, string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " PVC", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), open(), args[0]) },
		}
	}
	length := 10 * time.Second
	hang := claimVerb("hang", "Let every write to the volume wait for a while, and return after it",
		func(ctx context.Context, c *cluster.Cluster, pvc string) error {
			ctx, cancel := context.WithTimeout(ctx, length)
			defer cancel()
			return c.HangVolume(ctx, namespace, pvc)
		})
	hang.Flags().DurationVar(&length, "for", length, "how long the writes wait")
	cmd.AddCommand(hang,
		claimVerb("lose", "Take the disk away for good: accesses fail, and it cannot be mounted again",
			func(ctx context.Context, c *cluster.Cluster, pvc string) error {
				return c.LoseVolume(ctx, namespace, pvc)
			}),
		claimVerb("fill", "Write to the volume until nothing more fits",
			func(ctx context.Context, c *cluster.Cluster, pvc string) error {
				return c.FillVolume(ctx, namespace, pvc)
			}),
		claimVerb("unfill", "Take back what fill wrote",
			func(ctx context.Context, c *cluster.Cluster, pvc string) error {
				return c.UnfillVolume(ctx, namespace, pvc)
			}),
	)
	return cmd
}
