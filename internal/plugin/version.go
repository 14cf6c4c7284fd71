package plugin

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions are what `version` prints. Scripts read it, so fields are added, never renamed.
type versions struct {
	Plugin string `json:"plugin"`
	Go     string `json:"go"`
	// Operator is its image, Kubernetes the version of the API server; empty if they cannot be read.
	Operator   string `json:"operator,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
}

func (p *plugin) versionCommand() *cobra.Command {
	return p.printable(&cobra.Command{
		Use:     "version",
		Short:   "Print the versions of this plugin, of the operator and of the cluster",
		Example: "  kubectl meridian version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			known := versions{Plugin: p.Version, Go: runtime.Version()}
			// Without a cluster the version of the plugin is still worth knowing.
			if in, _, err := p.connect(); err == nil {
				var deployment appsv1.Deployment
				key := client.ObjectKey{Namespace: p.home, Name: "meridian-operator"}
				if err := in.Get(cmd.Context(), key, &deployment); err == nil && len(deployment.Spec.Template.Spec.Containers) > 0 {
					known.Operator = deployment.Spec.Template.Spec.Containers[0].Image
				}
				if in.Plain != nil {
					if server, err := in.Plain.Discovery().ServerVersion(); err == nil {
						known.Kubernetes = server.GitVersion
					}
				}
			}
			return p.print(known, func(out io.Writer) {
				fmt.Fprintf(out, "plugin      %s %s\n", known.Plugin, known.Go)
				fmt.Fprintf(out, "operator    %s\n", orUnknown(known.Operator))
				fmt.Fprintf(out, "kubernetes  %s\n", orUnknown(known.Kubernetes))
			})
		},
	})
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
