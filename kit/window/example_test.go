package window_test

import (
	"fmt"
	"time"

	"meridian.dev/meridian/kit/window"
)

// Something waits for the night from Saturday to Sunday.
func ExampleParse() {
	nightly, err := window.Parse("Sun 02:00-04:00", time.UTC)
	if err != nil {
		fmt.Println(err)
		return
	}
	friday := time.Date(2026, 3, 6, 18, 0, 0, 0, time.UTC)
	if _, open := nightly.At(friday); !open {
		fmt.Println("it waits until", nightly.Next(friday).Begin.Format("Mon 2 Jan 15:04"))
	}
	span, open := nightly.At(time.Date(2026, 3, 8, 3, 30, 0, 0, time.UTC))
	fmt.Println("on Sunday:", open, "until", span.End.Format("15:04"))
	// Output:
	// it waits until Sun 8 Mar 02:00
	// on Sunday: true until 04:00
}
