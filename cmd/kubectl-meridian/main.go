// Command kubectl-meridian is a plugin of kubectl: with it in the PATH, `kubectl meridian status` shows a database on
// one screen. It only gives the plugin its surroundings; what the verbs do lives in internal/plugin.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"meridian.dev/meridian/internal/plugin"
)

// version is set by the linker (see the Makefile). Without it, what Go recorded in the binary is used.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := plugin.New(plugin.Surroundings{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: terminal(os.Stdout),
		Colour: terminal(os.Stdout) && os.Getenv("NO_COLOR") == "", Version: versionOf(version), Run: run,
		Capture: capture,
	})
	root.SetArgs(os.Args[1:])
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "meridian:", err)
		os.Exit(1) //nolint:gocritic // Nothing is left to release.
	}
}

// terminal says that a person looks at the output, and that it understands how to move the cursor.
func terminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// run hands the terminal over to another program. Interrupts are for it alone meanwhile.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// capture returns what another program prints, or its last words.
func capture(ctx context.Context, name string, args ...string) ([]byte, error) {
	output, err := exec.CommandContext(ctx, name, args...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil, errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	return output, err
}

func versionOf(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
