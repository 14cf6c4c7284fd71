package machine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"meridian.dev/meridian/sandbox/network"
)

// The init runs in two stages, the second after executing itself again: a control group namespace belongs to a thread
// until the next exec makes that thread the whole process.
const (
	stageJoin = "join"
	stageRun  = "run"
)

// Init is PID 1 of a machine. It never returns while the machine lives.
func Init(dir, stage string) error {
	if os.Getpid() != 1 {
		return errors.New("this command is the first process of a machine and is started by the sandbox only")
	}
	spec, err := load(dir)
	if err != nil {
		return err
	}
	if stage == stageJoin {
		return join(spec)
	}
	return run(spec)
}

func join(spec Spec) error {
	word := os.NewFile(goFD, "go")
	if n, err := word.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the command that booted this machine went away: %w", err)
	}
	_ = word.Close()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a control group namespace: %w", err)
	}
	args := []string{os.Args[0], InitCommand, spec.Dir, stageRun}
	if err := syscall.Exec("/proc/self/exe", args, os.Environ()); err != nil {
		return fmt.Errorf("execute the second stage: %w", err)
	}
	return nil
}

func run(spec Spec) error {
	// Asked for and never read: nothing from inside ends PID 1. Ignoring them would be passed on to every service.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	listener, err := listen(spec)
	if err != nil {
		return err
	}
	if err := furnish(spec); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := errors.Join(network.RefuseRedirects("/proc/sys"), network.ForgetUnanswered("/proc/sys")); err != nil {
		return err
	}
	for name, value := range spec.Sysctls {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o600); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	crew := newCrew(spec)
	go crew.reap()
	go crew.startAll()
	return serve(listener, crew)
}

// listen opens the control socket. It happens before anything is mounted, because the machine's folder is the host's.
func listen(spec Spec) (net.Listener, error) {
	if err := os.RemoveAll(spec.socket()); err != nil {
		return nil, fmt.Errorf("remove an old control socket: %w", err)
	}
	listener, err := net.Listen("unix", spec.socket())
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	return listener, nil
}
