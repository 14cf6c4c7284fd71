// Command meridian is the one binary of the project. It only turns the command line into options: each
// sub-command has a file of its own here, and what it runs lives in internal/. Start reading at newRoot.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/backup/begin"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process around it, so that a test can call it.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == watchdogWord {
		return runWatchdog(args[1:], stderr)
	}
	if len(args) > 0 && args[0] == begin.FetchCommand {
		return runFetch(args[1:], stderr)
	}
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.Execute(); err != nil {
		// The exit code tells of the failure even when standard error is closed.
		_, _ = fmt.Fprintf(stderr, "meridian: %v\n", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "meridian",
		Short: "Runs geographic databases on Kubernetes",
		// An error is printed once, by run. The usage text would push it off the screen.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newVersion(), operatorCommand(), rbacCommand(), agentCommand(), installCommand(),
		recallCommand(), backupsCommand(), trialCommand())
	return root
}
