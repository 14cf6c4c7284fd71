// Package supervise does the duties of the first process of a container: it starts one server and keeps it in hand,
// runs short programs, and reaps every child, also those that were left to it by others.
//
// The first process inherits every orphan. One that does not wait for them fills the process table; one that waits
// for "any child" steals the exit codes that package os/exec waits for. So here is one reaper, and whoever wants to
// start a program in the same process does it through the [Supervisor], never through os/exec.
//
// # What counts as the group of a process
//
// A server may move its children into process groups and sessions of their own, and when it is killed they live on
// as orphans, some of them still at work. So the group of a [Process] is found by parentage: all its descendants, and
// all orphans that came to this process. [Process.Kill] ends them all and returns when none is left.
//
// Where the program is not process 1, it asks the kernel to be given orphans all the same (a "child subreaper"), so
// that it behaves alike in a test.
//
// # Stopping
//
// [Process.Stop] is a ladder: each [Step] is a signal and how long to wait after it. When the last step did not help,
// the whole group is killed. So it always ends, and within the sum of the steps plus the time of a kill.
//
// # Memory
//
// A program that stays beside a server shares its memory. [Shed] lets go of what only the start of the program needed.
//
// # What it may not do
//
// The package knows nothing of what it runs. It installs no handler for signals but the one that tells of children,
// it never restarts anything by itself, and it does not log: lines of output are handed to the caller. Linux only.
//
// Start reading at [Supervisor.Start].
package supervise
