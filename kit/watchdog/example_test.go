//go:build linux

package watchdog_test

import (
	"fmt"
	"time"

	"meridian.dev/meridian/kit/supervise"
	"meridian.dev/meridian/kit/watchdog"
)

// A program lets its server work for ten seconds from the moment that it began to ask for them. The sub-command
// watchdog of the program calls watchdog.Serve.
func Example() {
	supervisor, err := supervise.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer supervisor.Close()
	dog, err := watchdog.Start(supervisor, supervise.Command{Path: "/proc/self/exe", Args: []string{"watchdog"}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dog.Close()

	asked := watchdog.Now()
	// Here somebody grants the ten seconds.
	if err := dog.Set(asked+10*time.Second, time.Second); err != nil {
		fmt.Println("no watchdog, no server:", err)
		return
	}
	fmt.Println("the server may be started")
	// Output: the server may be started
}
