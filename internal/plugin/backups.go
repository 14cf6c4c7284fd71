package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/internal/wire"
)

func (p *plugin) backupsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backups",
		Short: "Look at the base backups of a database, delete one, or restore the latest on trial",
		Long: "Look at the base backups of a database, delete one, or restore the latest on trial. The repository is the\n" +
			"truth about them. It is read in the pod of the primary, where its credentials are (right: create pods/exec);\n" +
			"you need none yourself.",
		Example: "  kubectl meridian backups list cities\n" +
			"  kubectl meridian backups show cities due-20261118T020000Z-abcdefgh\n" +
			"  kubectl meridian backups delete cities now-1f2e3d4c5b6a7988-abcdefgh\n" +
			"  kubectl meridian backups verify cities",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.backupsListCommand(), p.backupsShowCommand(), p.backupsDeleteCommand(), p.backupsVerifyCommand())
	return cmd
}

func (p *plugin) backupsListCommand() *cobra.Command {
	return p.printable(&cobra.Command{
		Use: "list [NAME]", Short: "The base backups, what each can restore, and whether it is needed",
		Example: "  kubectl meridian backups list cities", Args: cobra.MaximumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, _, err := p.backupsOf(cmd.Context(), args)
			if err != nil {
				return err
			}
			return p.print(list, func(out io.Writer) { view.Backups(out, list) })
		},
	})
}

func (p *plugin) backupsShowCommand() *cobra.Command {
	return p.printable(&cobra.Command{
		Use: "show NAME ID", Short: "Everything about one base backup",
		Example: "  kubectl meridian backups show cities due-20261118T020000Z-abcdefgh",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, _, err := p.backupsOf(cmd.Context(), args[:1])
			if err != nil {
				return err
			}
			found, err := backupIn(list, args[1])
			if err != nil {
				return err
			}
			return p.print(found, func(out io.Writer) { view.Backup(out, list, found) })
		},
	})
}

func (p *plugin) backupsDeleteCommand() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use: "delete NAME ID", Short: "Delete a base backup, unless it is needed",
		Long: "Delete a base backup. One that the promised window needs, or the number that is kept, or that is the\n" +
			"newest that was found good by a restore on trial, is refused: change spec.backup.retention first. What is\n" +
			"deleted does not come back. The log that only it needed goes with the next retention.",
		Example: "  kubectl meridian backups delete cities now-1f2e3d4c5b6a7988-abcdefgh",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, words, err := p.backupsOf(cmd.Context(), args[:1])
			if err != nil {
				return err
			}
			found, err := backupIn(list, args[1])
			if err != nil {
				return err
			}
			if found.Needed != "" {
				return fmt.Errorf("%s is kept: %s; change spec.backup.retention if you want less", found.ID, found.Needed)
			}
			view.Backup(p.Err, list, found)
			if !sure && !p.agrees("Delete it? What is deleted does not come back. [y/N] ") {
				return errors.New("nothing was deleted; answer y, or say --yes")
			}
			if _, err := p.Capture(cmd.Context(), "kubectl", append(words, "delete", found.ID)...); err != nil {
				return fmt.Errorf("delete the backup: %w", err)
			}
			fmt.Fprintf(p.Out, "Deleted the backup %s.\n", found.ID)
			return nil
		},
	}
	cmd.Flags().BoolVarP(&sure, "yes", "y", false, "do not ask")
	return cmd
}

// agrees asks a person. Nobody at a terminal is no.
func (p *plugin) agrees(question string) bool {
	if !p.Terminal {
		return false
	}
	fmt.Fprint(p.Err, question)
	answer, _ := bufio.NewReader(p.In).ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// backupsOf asks the primary, and returns the words with which it was asked, without the last one.
func (p *plugin) backupsOf(ctx context.Context, args []string) (wire.BackupList, []string, error) {
	facts, _, err := p.facts(ctx, args)
	if err != nil {
		return wire.BackupList{}, nil, err
	}
	of := view.Of(facts)
	if facts.Database.Spec.Backup == nil {
		return wire.BackupList{}, nil, fmt.Errorf("%s has no spec.backup", of.Name)
	}
	pod, err := podFor(of, "", false)
	if err != nil {
		return wire.BackupList{}, nil, err
	}
	words := append([]string{"exec"}, p.kubectlArgs(of.Namespace)...)
	words = append(words, pod, "--container", "database", "--", wire.AgentBinary, "backups")
	output, err := p.Capture(ctx, "kubectl", append(slices.Clone(words), "list")...)
	if err != nil {
		return wire.BackupList{}, nil, fmt.Errorf("read the repository in the pod %s: %w", pod, err)
	}
	var list wire.BackupList
	if err := json.Unmarshal(output, &list); err != nil {
		return wire.BackupList{}, nil, fmt.Errorf("the agent in the pod %s has answered something else: %w", pod, err)
	}
	return list, words, nil
}

// backupIn finds a backup by its name, or by how its name begins where only one does so.
func backupIn(list wire.BackupList, id string) (wire.ListedBackup, error) {
	var found []wire.ListedBackup
	for _, one := range list.Backups {
		if one.ID == id {
			return one, nil
		}
		if id != "" && strings.HasPrefix(one.ID, id) {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 0:
		return wire.ListedBackup{}, fmt.Errorf("there is no backup %q; see: kubectl meridian backups list", id)
	case 1:
		return found[0], nil
	}
	return wire.ListedBackup{}, fmt.Errorf("%d backups begin with %q: write more of the name", len(found), id)
}
