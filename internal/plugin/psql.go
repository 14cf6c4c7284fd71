package plugin

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/internal/wire"
)

func (p *plugin) psqlCommand() *cobra.Command {
	var replica bool
	var instance string
	cmd := &cobra.Command{
		Use:   "psql NAME [-- ARGUMENTS OF PSQL]",
		Short: "Open psql in the pod of the primary, or of a replica",
		Long: "Open psql in the pod of the primary, or of a replica, as the superuser of PostgreSQL, in the database of\n" +
			"the application. It runs `kubectl exec` (right: create pods/exec) and needs no password.",
		Example: "  kubectl meridian psql cities\n" +
			"  kubectl meridian psql cities --replica -- -c 'select pg_is_in_recovery()'",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, _, err := p.facts(cmd.Context(), args[:1])
			if err != nil {
				return err
			}
			of := view.Of(facts)
			pod, err := podFor(of, instance, replica)
			if err != nil {
				return err
			}
			words := append([]string{"exec"}, p.kubectlArgs(of.Namespace)...)
			words = append(words, "--stdin")
			if p.Terminal && len(args) == 1 {
				words = append(words, "--tty")
			}
			name := facts.Database.Spec.Bootstrap.Database
			if name == "" {
				name = "app"
			}
			words = append(words, pod, "--container", "database", "--",
				"psql", "-h", wire.FolderRun, "-U", "postgres", "-d", name)
			if err := p.Run(cmd.Context(), "kubectl", append(words, args[1:]...)...); err != nil {
				return fmt.Errorf("run kubectl exec: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&replica, "replica", false, "a replica that is ready, instead of the primary")
	cmd.Flags().StringVar(&instance, "instance", "", "that instance, whatever it is")
	return cmd
}

// podFor finds the pod of an instance by its name or by what it does.
func podFor(of view.Overview, name string, replica bool) (string, error) {
	for _, instance := range of.Instances {
		wanted := instance.Role == v1alpha1.RolePrimary
		switch {
		case name != "":
			wanted = instance.Name == name || instance.Pod == name
		case replica:
			wanted = instance.Role == v1alpha1.RoleReplica && instance.Ready
		}
		if wanted && instance.Pod != "" {
			return instance.Pod, nil
		}
	}
	kind := "primary"
	switch {
	case name != "":
		kind = "instance " + name
	case replica:
		kind = "replica that is ready"
	}
	return "", fmt.Errorf("there is no %s; see: kubectl meridian status %s", kind, strings.TrimSpace(of.Name))
}
