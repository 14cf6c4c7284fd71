package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// DebianPackages are the packages that building Debian images needs on the machine itself.
var DebianPackages = []string{"mmdebstrap", "debian-archive-keyring"}

// trimScript is the script, relative to the folder of all recipes, that makes an image of an installed tree.
const trimScript = "debian/trim.sh"

// unwanted are never unpacked, which is faster than removing them; the trim script makes sure of the rest. They are the
// same that the slim variant of Debian's Docker image leaves out.
var unwanted = []string{
	"path-exclude=/usr/share/doc/*",
	"path-include=/usr/share/doc/*/copyright",
	"path-exclude=/usr/share/groff/*",
	"path-exclude=/usr/share/info/*",
	"path-exclude=/usr/share/lintian/*",
	"path-exclude=/usr/share/locale/*",
	"path-exclude=/usr/share/man/*",
}

// grace is how long a build that was told to stop may take to clean up.
const grace = 20 * time.Second

// debianLayer installs the recipe's packages into a new tree and writes it as a layer. The work folder is empty and
// removed by the caller.
func debianLayer(ctx context.Context, r *recipe, work string, epoch time.Time) (*layer, error) {
	sources, err := sourcesFor(os.DirFS("/"), r.Debian.Suite, os.Getenv(MirrorVariable))
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return nil, fmt.Errorf("mmdebstrap is missing: install the packages %s", strings.Join(DebianPackages, " "))
	}
	build := filepath.Join(work, "build")
	if err := stageTrim(r, build); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "mmdebstrap", debianArguments(r, build, sources, aptSettings(ctx))...)
	command.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", epoch.Unix()))
	confine(command, work)
	// The kernel ties "end with your parent" to the thread that started the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return layerFromCommand(command, filepath.Join(work, "layer.tar"), epoch)
}

// confine makes sure that a build that is stopped or killed leaves nothing running and nothing mounted: mmdebstrap
// mounts /proc, /sys and /dev in its tree, and would leave them there.
func confine(command *exec.Cmd, work string) {
	if os.Geteuid() != 0 {
		// It makes namespaces of its own, and a tree that belongs to other ids, which cannot look into a home folder.
		// Only itself can remove it.
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
		command.WaitDelay = grace
		return
	}
	command.Env = append(command.Env, "TMPDIR="+work)
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:    syscall.SIGKILL,
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
	}
}

// layerFromCommand runs a command that writes a tar file to its standard output and makes a layer of it.
func layerFromCommand(command *exec.Cmd, file string, epoch time.Time) (*layer, error) {
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", command.Path, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	made, layerErr := writeLayer(file, epoch, func(to *layerWriter) error { return to.copyTree(output) })
	_, _ = io.Copy(io.Discard, output) // The command must not block on a reader that has given up.
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("run %s: %w\n%s", filepath.Base(command.Path), err, lastLines(said.String(), 15))
	}
	return made, layerErr
}

func debianArguments(r *recipe, build string, sources, settings []string) []string {
	arguments := []string{
		"--variant=essential",
		"--format=tar",
		"--include=" + strings.Join(r.packages, ","),
		"--skip=cleanup/apt,cleanup/mmdebstrap", // The trim script has removed what these look for.
		"--dpkgopt=force-unsafe-io",             // The tree is thrown away: nothing in it has to survive a power cut.
	}
	for _, option := range unwanted {
		arguments = append(arguments, "--dpkgopt="+option)
	}
	for _, setting := range settings {
		arguments = append(arguments, "--aptopt="+setting)
	}
	arguments = append(arguments,
		fmt.Sprintf("--customize-hook=copy-in '%s' /", build),
		fmt.Sprintf(`--customize-hook=chroot "$1" sh /build/%s /build %s %d`, trimScript, r.User.Name, r.User.UID),
		r.Debian.Suite, "-")
	return append(arguments, sources...)
}

// stageTrim lays out the folder that the trim script finds inside the tree.
func stageTrim(r *recipe, build string) error {
	if strings.ContainsAny(build, `'"\`) {
		return fmt.Errorf("the cache folder %q has a quote or backslash in its name", build)
	}
	files := map[string][]byte{trimScript: r.trim}
	for file, content := range r.leaveOut {
		files[file] = content
	}
	for file, content := range files {
		target := filepath.Join(build, file)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("stage the trim script: %w", err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return fmt.Errorf("stage the trim script: %w", err)
		}
	}
	return nil
}

// aptSettings returns the machine's own settings about reaching its mirror, such as a proxy. A machine without apt, or
// an apt that does not answer, has none.
func aptSettings(ctx context.Context) []string {
	dump := exec.CommandContext(ctx, "apt-config", "dump",
		"Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until", "Acquire::Retries")
	said, err := dump.Output()
	if err != nil {
		return nil
	}
	var settings []string
	for line := range strings.Lines(string(said)) {
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, `"";`) {
			settings = append(settings, line)
		}
	}
	return settings
}

func lastLines(text string, count int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-count):], "\n")
}

// mountsBelow fails if something is still mounted in the folder: removing the folder would then empty what is mounted.
func mountsBelow(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			return errors.New("still mounted: " + fields[4])
		}
	}
	return nil
}
