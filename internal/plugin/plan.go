package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database/change"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
)

func (p *plugin) planCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what applying a manifest would do: each field with its cost, and each step, pod by pod",
		Long: "Show what applying a manifest would do: each field with its cost, and each step, pod by pod, with what\n" +
			"applications notice. Nothing is changed. The manifest is completed and judged by the API server, through\n" +
			"`kubectl apply --dry-run=server` (right: patch geodatabases); what it refuses is refused here too.",
		Example: "  kubectl meridian plan -f cities.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, namespace, err := p.connect()
			if err != nil {
				return err
			}
			previews, err := p.preview(cmd.Context(), in, namespace, file)
			if err != nil {
				return err
			}
			return p.print(previews, func(out io.Writer) {
				for _, preview := range previews {
					view.Plan(out, p.style(), preview)
				}
			})
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the manifest")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // The flag was defined the line before.
	}
	return p.printable(cmd)
}

// preview asks the API server what would be stored, and compares it with what is.
func (p *plugin) preview(
	ctx context.Context, in *cluster.Cluster, namespace, file string,
) ([]view.Preview, error) {
	words := append([]string{"apply"}, p.kubectlArgs(namespace)...)
	words = append(words, "--dry-run=server", "--output=json", "--filename", file)
	document, err := p.Capture(ctx, "kubectl", words...)
	if err != nil {
		return nil, fmt.Errorf("this would be refused: %w", err)
	}
	wanted, err := databasesIn(document)
	if err != nil {
		return nil, err
	}
	if len(wanted) == 0 {
		return nil, errors.New("there is no GeoDatabase in the manifest")
	}
	var previews []view.Preview
	for _, database := range wanted {
		var stored v1alpha1.GeoDatabase
		err := in.Get(ctx, client.ObjectKeyFromObject(&database), &stored)
		switch {
		case apierrors.IsNotFound(err):
			fresh := view.PreviewOf(database.Namespace, database.Name, nil, nil)
			fresh.New = true
			previews = append(previews, fresh)
			continue
		case err != nil:
			return nil, fmt.Errorf("read the database %s: %w", database.Name, err)
		}
		changes, steps := change.Preview(stored.Spec, database.Spec, change.Facts{
			Instances: names(stored.Status), Primary: stored.Status.Primary,
		})
		previews = append(previews, view.PreviewOf(database.Namespace, database.Name, changes, steps))
	}
	return previews, nil
}

// databasesIn finds them in what kubectl printed: one object, or a list.
func databasesIn(document []byte) ([]v1alpha1.GeoDatabase, error) {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, fmt.Errorf("read what kubectl says: %w", err)
	}
	if list.Kind != "List" {
		list.Items = []json.RawMessage{document}
	}
	var found []v1alpha1.GeoDatabase
	for _, item := range list.Items {
		var database v1alpha1.GeoDatabase
		var kind struct{ Kind string }
		if err := json.Unmarshal(item, &kind); err != nil || kind.Kind != "GeoDatabase" {
			continue
		}
		if err := json.Unmarshal(item, &database); err != nil {
			return nil, fmt.Errorf("read what kubectl says: %w", err)
		}
		found = append(found, database)
	}
	return found, nil
}
