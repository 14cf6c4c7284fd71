package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"meridian.dev/meridian/sandbox/cluster"
	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/volume"
)

// hiddenCommands are what this binary runs as inside the machines.
func hiddenCommands() []*cobra.Command {
	return []*cobra.Command{initCommand(), driverCommand(), controllerCommand()}
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
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("make a client: %w", err)
			}
			return volume.RunController(cmd.Context(), client, store)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "credentials of the controller")
	cmd.Flags().StringVar(&store.Dir, "store", "", "folder with the volumes of all nodes")
	return cmd
}
