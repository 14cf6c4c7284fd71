package sim_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often: runs are short, and make much of it.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
