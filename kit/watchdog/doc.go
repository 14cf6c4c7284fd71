// Package watchdog ends the processes of a server at a deadline, whatever becomes of the program that supervises them.
//
// A program that may let its server work only until some moment cannot trust itself to end it in time: it may be
// stopped, frozen, starved, or dead. So it starts a second process, the watchdog, and tells it the deadline, never a
// heartbeat. At the deadline the watchdog kills every descendant of the program but itself, again and again until none
// is left: also orphans of a killed parent, which come to the program as the reaper of its container, and stopped
// processes. What was started after the deadline is killed too, until the program names another one.
//
// # The clock
//
// Deadlines are on the clock that [Now] reads: the time since boot. It goes on while the machine sleeps, which Go's
// monotonic clock does not, and nobody can set it, as the wall clock can be. A moment on it means nothing after another
// boot, so what is stored carries the [BootID]. A machine that is paused from outside may stop even this clock; what is
// seen of that is a wall clock that jumps forward. The watchdog takes such a jump for time that has passed: the
// deadline comes as much nearer. A [Wall] lets the program see the jump too, and a deadline that it names later stands
// as it is.
//
// # When one of the two dies
//
// When the program dies, the watchdog kills at once. When the watchdog dies, [Watchdog.Done] is closed, and the program
// must end its server itself: nothing else would end it in time.
//
// # What it may not do
//
// It knows nothing of what it kills, and looks for no names: it goes by parentage alone. Linux only.
//
// Start reading at [Start] for the program, at [Serve] for the watchdog.
package watchdog
