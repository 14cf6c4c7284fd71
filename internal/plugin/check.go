package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/docs"
	"meridian.dev/meridian/internal/plugin/view"
)

func (p *plugin) checkCommand() *cobra.Command {
	wide := false
	cmd := p.printable(&cobra.Command{
		Use:   "check [NAME]",
		Short: "Say what is wrong with a database, each with its reason and its page of the runbook",
		Long: "Say what is wrong with a database, each with its reason and its page of the runbook. The exit code is 1 if\n" +
			"a check failed.\n\n" +
			"With --cluster: what the cluster and the namespace lack for databases, before there is one. Nothing is made.",
		Example: "  kubectl meridian check cities\n  kubectl meridian check cities -o json\n" +
			"  kubectl meridian check --cluster",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if wide {
				return p.checkCluster(cmd.Context(), args)
			}
			facts, _, err := p.facts(cmd.Context(), args)
			if err != nil {
				return err
			}
			findings := view.Diagnose(facts, docs.Reasons())
			err = p.print(findings, func(out io.Writer) { view.Check(out, p.style(), facts.Database.Name, findings) })
			if err == nil && !view.Sound(findings) {
				return errUnsound
			}
			return err
		},
	})
	cmd.Flags().BoolVar(&wide, "cluster", false, "check the cluster and the namespace instead of a database")
	return cmd
}

// checkCluster is the look around before the first database.
func (p *plugin) checkCluster(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return errors.New("--cluster is about the cluster and the namespace: leave the name of the database out")
	}
	in, namespace, err := p.connect()
	if err != nil {
		return err
	}
	findings := view.CheckSurroundings(in.Survey(ctx, namespace))
	err = p.print(findings, func(out io.Writer) { view.Check(out, p.style(), "namespace "+namespace, findings) })
	if err == nil && !view.Sound(findings) {
		return errUnsound
	}
	return err
}

func (p *plugin) explainCommand() *cobra.Command {
	return p.printable(&cobra.Command{
		Use:     "explain [NAME]",
		Short:   "Say why the operator does nothing right now: what holds it, since when, and how that ends",
		Example: "  kubectl meridian explain cities",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, _, err := p.facts(cmd.Context(), args)
			if err != nil {
				return err
			}
			explanation := view.ExplainFacts(facts)
			return p.print(explanation, func(out io.Writer) { view.Explain(out, p.style(), facts.Now, explanation) })
		},
	})
}

func (p *plugin) eventsCommand() *cobra.Command {
	return p.printable(&cobra.Command{
		Use:     "events [NAME]",
		Short:   "Show what happened to a database, its caches and its pods, the newest last",
		Example: "  kubectl meridian events cities",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, _, err := p.facts(cmd.Context(), args)
			if err != nil {
				return err
			}
			changes := view.Changes(facts, "")
			return p.print(changes, func(out io.Writer) { view.Events(out, p.style(), facts.Now, changes) })
		},
	})
}

func (p *plugin) runbookCommand() *cobra.Command {
	return p.printable(&cobra.Command{
		Use:     "runbook [REASON|ALERT]",
		Short:   "Print the page of the runbook for the reason of a condition or for an alert, or the list of pages",
		Example: "  kubectl meridian runbook QuorumMissing\n  kubectl meridian runbook MeridianNotServing",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return slices.Concat(docs.Reasons(), docs.Alerts()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				pages := slices.Concat(docs.Reasons(), docs.Alerts())
				return p.print(pages, func(out io.Writer) { fmt.Fprintln(out, strings.Join(pages, "\n")) })
			}
			page, err := docs.Page(args[0])
			if err != nil {
				return fmt.Errorf("%w; `kubectl meridian runbook` lists them", err)
			}
			return p.print(map[string]string{"name": args[0], "page": page}, func(out io.Writer) { fmt.Fprint(out, page) })
		},
	})
}

func (p *plugin) completionCommand() *cobra.Command {
	const script = "#!/bin/sh\nexec kubectl meridian __complete \"$@\"\n"
	return &cobra.Command{
		Use:   "completion kubectl|bash|zsh|fish|powershell",
		Short: "Print what makes a shell complete the verbs and the names of databases",
		Long: "Print what makes a shell complete the verbs and the names of databases. For `kubectl meridian …` put the\n" +
			"output of `completion kubectl` into an executable file kubectl_complete-meridian in the PATH, beside the\n" +
			"completion of kubectl itself. The other words are for calling kubectl-meridian directly.",
		Example:   "  kubectl meridian completion kubectl > kubectl_complete-meridian && chmod +x kubectl_complete-meridian",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"kubectl", "bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(p.Out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(p.Out)
			case "fish":
				return cmd.Root().GenFishCompletion(p.Out, true)
			case "powershell":
				return cmd.Root().GenPowerShellCompletionWithDesc(p.Out)
			}
			_, err := io.WriteString(p.Out, script)
			return err
		},
	}
}
