package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"meridian.dev/meridian/sandbox/cluster"
	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/policy"
	"meridian.dev/meridian/sandbox/volume"
)

// hiddenCommands are what this binary runs as inside the machines.
func hiddenCommands() []*cobra.Command {
	return []*cobra.Command{initCommand(), driverCommand(), controllerCommand(), enforcerCommand()}
}

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use: machine.InitCommand + " DIR STAGE", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return machine.Init(args[0], args[1]) },
	}
}

func driverCommand() *cobra.Command {
	driver := &volume.Driver{}
	cmd := &cobra.Command{
		Use: cluster.DriverCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return driver.Serve(cmd.Context()) },
	}
	cmd.Flags().StringVar(&driver.Node, "node", "", "name of this node")
	cmd.Flags().StringVar(&driver.Store.Dir, "store", "", "folder with the volumes")
	return cmd
}

func controllerCommand() *cobra.Command {
	var kubeconfig string
	var store volume.Store
	cmd := &cobra.Command{
		Use: cluster.VolumesCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := clientOf(kubeconfig)
			if err != nil {
				return err
			}
			return volume.RunController(cmd.Context(), client, store)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "credentials of the controller")
	cmd.Flags().StringVar(&store.Dir, "store", "", "folder with the volumes of all nodes")
	return cmd
}

func enforcerCommand() *cobra.Command {
	var kubeconfig, node string
	cmd := &cobra.Command{
		Use: cluster.PolicyCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := clientOf(kubeconfig)
			if err != nil {
				return err
			}
			return policy.Enforce(cmd.Context(), client, node)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "credentials of the enforcer")
	cmd.Flags().StringVar(&node, "node", "", "name of this node")
	return cmd
}

func clientOf(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}
