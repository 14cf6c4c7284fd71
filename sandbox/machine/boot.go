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

// ToolPath is where programs are looked for inside machines, whatever the caller's PATH is.
const ToolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// InitCommand is the hidden command of the sandbox's binary that runs Init.
const InitCommand = "machine-init"

// goFD is the pipe over which Boot tells the init to go on. It closes without a word when the booting command dies,
// and the init then ends before it has done anything. It waits for the word until Boot has put it into the machine's
// control group, so there is no moment at which a crash leaves a process behind that is not found by its group.
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
	pid, word, err := spawnInit(binary, spec)
	if err != nil {
		return err
	}
	defer func() { _ = word.Close() }()
	if err := joinGroup(spec.Name, pid); err != nil {
		return err
	}
	if err := connect(pid); err != nil {
		return fmt.Errorf("connect machine %s: %w", spec.Name, err)
	}
	if err := os.WriteFile(filepath.Join(spec.Dir, "pid"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
		return fmt.Errorf("write pid of machine %s: %w", spec.Name, err)
	}
	if _, err := word.Write([]byte("g")); err != nil {
		return fmt.Errorf("machine %s ended while booting, see %s: %w", spec.Name, spec.logFile("init"), err)
	}
	return awaitControl(ctx, spec)
}

// spawnInit starts the init in namespaces of its own and returns the end of the pipe that it waits at.
func spawnInit(binary string, spec Spec) (pid int, word *os.File, err error) {
	log, err := os.OpenFile(spec.logFile("init"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, fmt.Errorf("open log of machine %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }()
	reader, writer, err := os.Pipe()
	if err != nil {
		return 0, nil, fmt.Errorf("make pipe: %w", err)
	}
	defer func() { _ = reader.Close() }()
	init := &exec.Cmd{
		Path: binary, Args: []string{binary, InitCommand, spec.Dir, stageJoin}, Env: []string{"PATH=" + ToolPath},
		Stdout: log, Stderr: log, ExtraFiles: []*os.File{reader},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:     true,
			Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		},
	}
	if err := init.Start(); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("start machine %s: %w", spec.Name, err), writer.Close())
	}
	go func() { _ = init.Wait() }() // Only collects the exit status, should the machine end before this command.
	return init.Process.Pid, writer, nil
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
		if Frozen(name) { // A frozen process dies when it wakes: the signal is there before it can do anything else.
			if err := Thaw(name); err != nil {
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

// all lists the machines that have a control group, running or not.
func all() ([]string, error) {
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
	names, err := all()
	if err != nil {
		return err
	}
	var killed []int
	var failed []error
	for _, name := range names { // One that does not end keeps none of the others.
		pids, err := powerOff(name)
		killed, failed = append(killed, pids...), append(failed, err)
	}
	awaitCollected(killed)
	return errors.Join(append(failed, removeGroup(""))...)
}
