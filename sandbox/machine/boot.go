package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// InitCommand is the hidden command of the sandbox's binary that runs Init.
const InitCommand = "machine-init"

// goFD is the pipe over which Boot tells the init that the network is plugged in. It closes without a word when the
// booting command dies, and the machine then ends too: there is no moment at which a crash leaves a machine behind
// that is not in its control group.
const goFD = 3

// Boot starts the machine. The init is the given binary; connect plugs the network into the namespaces of a process
// and runs before any service starts. When Boot returns the machine is furnished; its services are still coming up.
func Boot(ctx context.Context, binary string, spec Spec, connect func(pid int) error) (err error) {
	if err := os.MkdirAll(filepath.Join(spec.Dir, "log"), 0o755); err != nil {
		return fmt.Errorf("make folder of machine %s: %w", spec.Name, err)
	}
	if err := spec.save(); err != nil {
		return err
	}
	log, err := os.OpenFile(spec.logFile("init"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of machine %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }()
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer func() { _ = writer.Close() }()
	init := &exec.Cmd{
		Path: binary, Args: []string{binary, InitCommand, spec.Dir, stageJoin}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Stdout: log, Stderr: log, ExtraFiles: []*os.File{reader},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:     true,
			Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		},
	}
	err = init.Start()
	_ = reader.Close()
	if err != nil {
		return fmt.Errorf("start machine %s: %w", spec.Name, err)
	}
	go func() { _ = init.Wait() }() // Only collects the exit status, should the machine end before this command.
	if err := connect(init.Process.Pid); err != nil {
		return fmt.Errorf("connect machine %s: %w", spec.Name, err)
	}
	if err := awaitGroup(ctx, spec, init.Process.Pid); err != nil {
		return err
	}
	pid := []byte(strconv.Itoa(init.Process.Pid))
	if err := os.WriteFile(filepath.Join(spec.Dir, "pid"), pid, 0o600); err != nil {
		return fmt.Errorf("write pid of machine %s: %w", spec.Name, err)
	}
	if _, err := writer.Write([]byte("g")); err != nil {
		return fmt.Errorf("machine %s ended while booting, see %s: %w", spec.Name, spec.logFile("init"), err)
	}
	return awaitControl(ctx, spec)
}

// awaitControl waits until the init answers, which it does when all else is in place.
func awaitControl(ctx context.Context, spec Spec) (err error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err = Services(ctx, spec.Dir); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("machine %s does not answer, see %s: %w", spec.Name, spec.logFile("init"), err)
}

// awaitGroup waits until the init has put itself into the machine's control group.
func awaitGroup(ctx context.Context, spec Spec, pid int) error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		pids, err := members(spec.Name)
		if err != nil {
			return err
		}
		if slices.Contains(pids, pid) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("machine %s did not boot, see %s", spec.Name, spec.logFile("init"))
}

// PID returns the process id of the machine's init, or 0 if the machine is off. The number in the file alone proves
// nothing, as the kernel may have given it to another process since: it counts only inside the machine's group.
func PID(name, dir string) int {
	content, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	pids, err := members(name)
	if err != nil || !slices.Contains(pids, pid) {
		return 0
	}
	return pid
}

// PowerOff ends every process of the machine at once and removes its control groups. A machine that is off is fine.
func PowerOff(name string) error {
	_, err := powerOff(name)
	return err
}

// powerOff returns the processes that it ended.
func powerOff(name string) (killed []int, err error) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		pids, err := members(name)
		if err != nil {
			return killed, err
		}
		if len(pids) == 0 {
			break
		}
		killed = append(killed, pids...)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // It may be gone already: the next look tells.
		}
		if frozen(name) { // A frozen process dies when it wakes: the signal is there before it can do anything else.
			if err := freeze(name, false); err != nil {
				return killed, err
			}
		}
		if time.Now().After(deadline) {
			return killed, fmt.Errorf("processes %v of machine %s do not end", pids, name)
		}
	}
	return killed, removeGroup(name)
}

// awaitCollected gives the host's own init the time to collect what was killed: until then an ended machine still
// shows in the list of processes. A host whose init does not collect is not waited for.
func awaitCollected(pids []int) {
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !slices.ContainsFunc(pids, func(pid int) bool { return unix.Kill(pid, 0) == nil }) {
			return
		}
	}
}

// Freeze stops every process of the machine without ending any, as a hung host would; Thaw lets them go on.
func Freeze(name string) error { return freeze(name, true) }

// Thaw undoes Freeze.
func Thaw(name string) error { return freeze(name, false) }

// Frozen tells whether the machine is frozen.
func Frozen(name string) bool { return frozen(name) }

// All lists the machines that have a control group, running or not.
func All() ([]string, error) {
	trees, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tree := range trees {
		entries, err := os.ReadDir(filepath.Join(tree.path, groupRoot))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list control groups: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() && !slices.Contains(names, entry.Name()) {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// RemoveAll powers every machine off and removes the group that holds them, so that nothing of any machine is left.
func RemoveAll() error {
	names, err := All()
	if err != nil {
		return err
	}
	var killed []int
	for _, name := range names {
		pids, err := powerOff(name)
		if err != nil {
			return err
		}
		killed = append(killed, pids...)
	}
	awaitCollected(killed)
	return removeGroup("")
}
