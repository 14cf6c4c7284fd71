package main

import (
	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/operator"
)

func rbacCommand() *cobra.Command {
	var namespaces []string
	home, webhook := operator.HomeNamespace, operator.Defaults().Webhook
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print exactly the rights that the operator needs, for kubectl apply",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := operator.Rights(home, webhook).YAML(operator.Installation(home, namespaces))
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringSliceVar(&namespaces, "namespaces", nil, "namespaces that the operator works in; none means all")
	cmd.Flags().BoolVar(&webhook, "webhook", webhook, "with the rights of the webhook")
	cmd.Flags().StringVar(&home, "home", home, "namespace that the operator runs in")
	return cmd
}
