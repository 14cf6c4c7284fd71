// Command demo shows Meridian from nothing: it starts the sandbox, installs the operator, makes a database with two
// replicas, a cache and backups, loads places of the world into it, asks a replica for the nearest ones, keeps the
// answer in the cache, drops a table and has it back in a second database, and says what to try next. `make demo` runs
// it from the root of the repository.
//
// Every step looks first at what is there already, so the command can be run again at any time and goes on where it
// stopped. With `down` it removes what it has made, and nothing else. Start reading at steps.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"meridian.dev/meridian/hack/demo/store"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
)

const (
	// namespace is where the demo lives, and all that it owns beside the operator.
	namespace = "demo"
	// databaseName, cacheName and keyName are those of the sample; the key is that of the backups.
	databaseName = "cities"
	cacheName    = "tiles"
	keyName      = "cities-backup-key"
	// restoredName is the second database, with what the first one was before the mistake.
	restoredName = "cities-before"

	kubeconfig = ".sandbox/kubeconfig"
	sample     = "deploy/samples/backup.yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Without one, the client prints a stack trace instead once the program is half a minute old.
	log.SetLogger(logr.Discard())
	d := &demo{out: os.Stdout, screen: newScreen(os.Stdout), begun: time.Now()}
	run := d.up
	if len(os.Args) > 1 && os.Args[1] == "down" {
		run = d.down
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1) //nolint:gocritic // Nothing is left to release.
	}
}

// demo is one run.
type demo struct {
	out     io.Writer
	screen  *screen
	begun   time.Time
	cluster *cluster.Cluster
	// primary, its node, and answer are what the last steps have found.
	primary string
	node    string
	answer  answer
}

// step is one part of the demo.
type step struct {
	title string
	do    func(context.Context) error
	// hint is where to look when it fails.
	hint string
}

func (d *demo) steps() []step {
	look := "bin/kubectl-meridian --kubeconfig " + kubeconfig + " -n " + namespace
	pods := "bin/sandbox kubectl -n " + namespace + " get pods"
	return []step{
		{"a Kubernetes with three nodes, on this machine", d.startSandbox, "bin/sandbox status; README.md, What you need"},
		{"the operator", d.install, "bin/sandbox kubectl -n meridian-system get pods; docs/guide/install.md"},
		{"an S3 server for backups (" + store.Manifest + ")", d.startStore, pods},
		{"a database with two replicas, and a cache (" + sample + ")", d.apply, look + " explain " + databaseName},
		{"the operator and the agents at work", d.await, look + " check " + databaseName},
		{"cities of the world, through the write address " + databaseName + "-rw", d.load, look + " status " + databaseName},
		{"the nearest ones, through the read address " + databaseName + "-ro", d.ask, look + " status " + databaseName},
		{"the answer in the cache, over TLS and with its password", d.remember, look + " status " + databaseName},
		{"a mistake, and what was lost in a second database, " + restoredName, d.restore, look + " check " + restoredName},
	}
}

func (d *demo) up(ctx context.Context) error {
	if err := inRoot(); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "Meridian: a map database with replicas, cache and backups. About two minutes once all is built;")
	fmt.Fprintln(d.out, "the very first time Kubernetes and the images are built too: up to 20 minutes on 2 cores.")
	steps := d.steps()
	for index, step := range steps {
		fmt.Fprintf(d.out, "\n%s\n", d.screen.strong(fmt.Sprintf("[%d/%d] %s", index+1, len(steps), step.title)))
		start := time.Now()
		if err := step.do(ctx); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return errors.New("stopped; `make demo` goes on from here, `make demo-down` cleans up")
			}
			return fmt.Errorf("step %d of %d, %s: %w; look at: %s; then run `make demo` again, it goes on from here",
				index+1, len(steps), step.title, err, step.hint)
		}
		d.say("done in %s, %s in all", seconds(time.Since(start)), seconds(time.Since(d.begun)))
	}
	d.next()
	return nil
}

// inRoot says so when the demo is run from elsewhere: every path in it is relative.
func inRoot() error {
	for _, path := range []string{sample, "bin/sandbox"} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("there is no %s here: run `make demo` in the root of the repository", path)
		}
	}
	return nil
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "      "+format+"\n", args...)
}

func seconds(span time.Duration) string {
	switch {
	case span < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(span.Microseconds())/1000)
	case span < time.Second:
		return fmt.Sprintf("%d ms", span.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", span.Seconds())
}

// next says what else there is to see.
func (d *demo) next() {
	folder, err := filepath.Abs(".")
	if err != nil {
		folder = "."
	}
	kubectl := "kubectl"
	if _, err := exec.LookPath(kubectl); err != nil {
		kubectl = "bin/sandbox kubectl"
	}
	text := strings.NewReplacer("{kubectl}", kubectl, "{namespace}", namespace, "{primary}", d.primary,
		"{node}", strings.TrimPrefix(d.node, "node"), "{name}", databaseName,
		"{config}", filepath.Join(folder, kubeconfig), "{folder}", filepath.Join(folder, "bin")).Replace(tries)
	title := fmt.Sprintf("Done, after %s. Five things to try next:", seconds(time.Since(d.begun)))
	fmt.Fprintf(d.out, "\n%s\n%s", d.screen.strong(title), text)
}

const tries = `
  export KUBECONFIG={config} PATH={folder}:$PATH

  1. Kill the primary. Another instance takes over in about two seconds, and no acknowledged write is lost:
       {kubectl} -n {namespace} delete pod {primary}-0 --wait=false
     or pull the plug of its whole node, which takes about ten:  bin/sandbox node stop {node}   (and: node start {node})
  2. Scale the reads:
       {kubectl} -n {namespace} scale gdb/{name} --replicas=5
  3. Grow the volumes, without a restart:
       {kubectl} -n {namespace} patch gdb {name} --type=merge -p '{"spec":{"storage":{"size":"2Gi"}}}'
  4. Change a parameter of PostgreSQL; ask for nonsense too, such as work_mem: lots:
       {kubectl} -n {namespace} patch gdb {name} --type=merge -p '{"spec":{"parameters":{"work_mem":"32MB"}}}'
  5. Watch all of it from a second terminal:
       {kubectl} meridian -n {namespace} status {name} --watch

  SQL:       {kubectl} meridian -n {namespace} psql {name}
  Clean up:  make demo-down
`

// screen is where the live view is painted: over itself on a terminal, a line for each change elsewhere.
type screen struct {
	out      io.Writer
	terminal bool
	lines    int
	last     string
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &screen{out: out, terminal: terminal}
}

func (s *screen) style() view.Style {
	return view.Style{Colour: s.terminal && os.Getenv("NO_COLOR") == ""}
}

func (s *screen) strong(text string) string {
	if s.style().Colour {
		return "\x1b[1m" + text + "\x1b[0m"
	}
	return text
}
