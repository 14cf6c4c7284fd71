package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/cluster"
)

func (p *plugin) restartCommand() *cobra.Command {
	return p.printable(&cobra.Command{
		Use:   "restart NAME",
		Short: "Ask for a restart of every instance: replicas one by one, then the primary moves once",
		Long: "Ask for a restart of every instance: replicas one by one, then the primary moves once, the old one last.\n" +
			"What waits for a restart is taken along. The request is spec.restart (right: patch geodatabases), which gets\n" +
			"the present time.",
		Example: "  kubectl meridian restart cities && kubectl meridian status cities --watch",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: p.complete,
		RunE: p.forNamed(p.restart),
	})
}

// restarted is what was asked for, for programs.
type restarted struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Restart is the value of spec.restart, Paused says that it waits until spec.paused is false.
	Restart string `json:"restart"`
	Paused  bool   `json:"paused,omitempty"`
}

func (p *plugin) restart(ctx context.Context, in *cluster.Cluster, key client.ObjectKey) error {
	var database v1alpha1.GeoDatabase
	if err := in.Get(ctx, key, &database); err != nil {
		return fmt.Errorf("read the database %s: %w", key, err)
	}
	asked := database.DeepCopy()
	asked.Spec.Restart = in.Now().UTC().Format(time.RFC3339)
	wanted := asked.Spec.Restart
	if err := ask(ctx, in, &database, asked); err != nil {
		return fmt.Errorf("ask for a restart: %w", err)
	}
	if asked.Spec.Restart != wanted {
		return errors.New("this cluster does not know spec.restart: its definitions are older than this plugin")
	}
	done := restarted{Namespace: key.Namespace, Name: key.Name, Restart: wanted, Paused: database.Spec.Paused}
	return p.print(done, func(out io.Writer) {
		fmt.Fprintf(out, "Asked for a restart of %s. Follow it with: kubectl meridian status %s --watch\n", key.Name,
			key.Name)
		if done.Paused {
			fmt.Fprintln(out, "spec.paused is true: it waits until that is false.")
		}
	})
}
