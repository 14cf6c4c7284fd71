package main

import (
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"meridian.dev/meridian/internal/operator"
)

func operatorCommand() *cobra.Command {
	options := operator.Defaults()
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator: turn GeoDatabases and GeoCaches into instances that answer",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Home, options.Pod = operator.HomeFromEnvironment(), operator.PodFromEnvironment()
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find the cluster: %w", err)
			}
			return operator.Run(ctrl.SetupSignalHandler(), config, options, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	options.AddImageFlags(flags)
	flags.StringSliceVar(&options.Namespaces, "namespaces", nil, "namespaces to work in; none means all")
	flags.StringVar(&options.Images.Agent, "agent-image", options.Images.Agent,
		"image that the agent is copied from; none means the one that this process runs from")
	flags.StringSliceVar(&options.Place.PullSecrets, "image-pull-secrets", nil,
		"names of Secrets with which all instances fetch their images, in the namespace of each")
	flags.BoolVar(&options.Place.AnyUser, "any-user", false,
		"leave the accounts of pods to the cluster, as OpenShift wants it, instead of asking for 65532")
	flags.StringVar(&options.MetricsAddress, "metrics-address", options.MetricsAddress,
		"where metrics are served; 0: nowhere")
	flags.BoolVar(&options.PlainMetrics, "plain-metrics", options.PlainMetrics,
		"serve metrics over HTTP to everybody, instead of over TLS to accounts that may get /metrics")
	flags.DurationVar(&options.LostAfter, "node-lost-after", options.LostAfter,
		"how long a node may be away before its instances are replaced")
	flags.BoolVar(&options.Webhook, "webhook", options.Webhook,
		"answer the API server about objects before they are stored")
	flags.StringVar(&options.ProbeAddress, "probe-address", options.ProbeAddress, "where /healthz and /readyz are served")
	flags.BoolVar(&options.LeaderElection, "leader-election", options.LeaderElection, "act only while holding the lease")
	flags.IntVar(&options.Rolls, "max-rolls", options.Rolls,
		"databases whose instances are restarted at the same time; 0 means any number")
	flags.IntVar(&options.RollFailures, "max-roll-failures", options.RollFailures,
		"databases to which a change has done harm before no other one begins; 0 means any number")
	flags.IntVar(&options.Trials, "max-trials", options.Trials,
		"databases that are restored on trial at the same time; 0 means any number")
	flags.IntVar(&options.Workers, "workers", options.Workers, "databases that are worked on at the same time")
	flags.BoolVar(&options.Verbose, "verbose", options.Verbose, "log the borders of every stage")
	return cmd
}
