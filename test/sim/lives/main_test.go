package lives_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain collects garbage less often: runs are short, and make much of it.
func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
