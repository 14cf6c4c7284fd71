package plugin

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/internal/wire"
)

func (p *plugin) psqlCommand() *cobra.Command {
	var replica, superuser bool
	var instance string
	cmd := &cobra.Command{
		Use:   "psql NAME [-- ARGUMENTS OF PSQL]",
		Short: "Open psql in the pod of the primary, or of a replica",
		Long: "Open psql in the pod of the primary, or of a replica, in the database of the application, as its owner.\n" +
			"It runs `kubectl exec` (right: create pods/exec) and needs no password.\n\n" +
			"With --superuser it is the superuser of PostgreSQL. The search path is pg_catalog then, so that functions\n" +
			"and operators of the application are not run by mistake with all rights: name schemas, such as\n" +
			"public.cities, and call nothing that the application may have made.",
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
			bootstrap := facts.Database.Spec.Bootstrap
			words = append(words, pod, "--container", "database", "--", "psql",
				session(cmp.Or(bootstrap.Database, "app"), cmp.Or(bootstrap.Owner, "app"), superuser))
			if err := p.Run(cmd.Context(), "kubectl", append(words, args[1:]...)...); err != nil {
				return fmt.Errorf("run kubectl exec: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&replica, "replica", false, "a replica that is ready, instead of the primary")
	cmd.Flags().BoolVar(&superuser, "superuser", false, "as the superuser, with a search path of pg_catalog alone")
	cmd.Flags().StringVar(&instance, "instance", "", "that instance, whatever it is")
	return cmd
}

// session is the connection string of psql. A session of the owner begins as the owner: one that was the superuser's
// before could be made so again by any function that it calls.
func session(database, owner string, superuser bool) string {
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
	}
	text := "host=" + wire.FolderRun + " dbname=" + quote(database)
	if superuser {
		return text + " user=postgres options=" + quote(wire.SuperuserOptions)
	}
	return text + " user=" + quote(owner)
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
