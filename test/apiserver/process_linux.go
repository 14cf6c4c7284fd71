package apiserver

import "syscall"

// endWithParent lets the kernel end the program when the test is killed and cannot clean up.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
