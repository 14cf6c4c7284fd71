// Package compile runs the Go compiler in one way for all that a sandbox is made of: the parts of the cluster, and the
// programs in images. The compiler keeps what it has made by the flags that it was given, so one flag more in one place
// would compile everything below it twice. The Makefile builds the tools of the repository with the same flags; a test
// compares. Start reading at Programs.
package compile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// Flags are those of every build. Debug data is not even made, since the linker would only drop it: that is a seventh
// of the work. The machine code is the same with and without it.
var Flags = []string{"-trimpath", "-gcflags=all=-dwarf=false"}

// collectAt is how much the compiler lets its memory grow before it looks for what is free, in percent. The default of
// Go suits a server; a compiler ends before it pays.
const collectAt = "GOGC=400"

// Programs says what to build.
type Programs struct {
	// Dir is a folder of the module.
	Dir string
	// Packages are built at once, so that the compiler can work on all of them.
	Packages []string
	// Output is a file, or with a slash at its end a folder with programs that are named after their packages.
	Output string
	// Tags are separated by commas.
	Tags string
	// LinkFlags come beside those that leave out debug data.
	LinkFlags string
}

// Run builds the programs, static and for Linux. The settings are its own: the caller's GOFLAGS or a workspace must not
// change what is built.
func (p Programs) Run(ctx context.Context) error {
	arguments := append([]string{"build"}, Flags...)
	arguments = append(arguments, "-mod=readonly", "-buildvcs=false", "-tags="+p.Tags,
		"-ldflags="+strings.TrimSpace("-s -w "+p.LinkFlags), "-o", p.Output)
	cmd := exec.CommandContext(ctx, "go", append(arguments, p.Packages...)...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=", "GOWORK=off")
	if os.Getenv("GOGC") == "" { // Whoever has set it knows why.
		cmd.Env = append(cmd.Env, collectAt)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // A killed builder does not go on building.
	// The kernel ties "end with your parent" to the thread that started the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", strings.Join(p.Packages, ", "), err, lastLines(string(said), 20))
	}
	return nil
}

func lastLines(text string, count int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-count):], "\n")
}
