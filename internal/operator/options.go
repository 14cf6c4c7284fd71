// Package operator assembles the operator's process: configuration in, a manager with every loop out. It is the only
// place, beside cmd, that knows the surroundings of the process; no loop reads a flag.
//
// Start reading at Run. rights.go has what the process may do, scope.go where it works.
package operator

import (
	"errors"
	"log/slog"
	"os"
	"strconv"
	"time"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/rbac"
)

const (
	// Name is that of the operator's account, roles, lease and Deployment.
	Name = "meridian-operator"
	// HomeNamespace is where the operator runs unless it is told otherwise.
	HomeNamespace = "meridian-system"

	// MetricsPort is where figures are served unless the process is told otherwise.
	MetricsPort = 8443

	// passTimeout bounds a pass including its report. The runner has a shorter limit of its own for the stages.
	passTimeout = 90 * time.Second
)

// Options is everything that can be set from outside.
type Options struct {
	// Namespaces are those that the operator works in; none means all.
	Namespaces []string
	// Home is the namespace of the operator itself, Pod the name of its pod.
	Home, Pod string
	// Place is what the cluster demands of the pods of all instances.
	Place service.Place
	// Images are what instances are started with, CacheImages those of caches. Without one of the agent it is copied from
	// the operator's own.
	Images      database.Images
	CacheImages cache.Images
	// MetricsAddress and ProbeAddress are host:port, "0" switches metrics off.
	MetricsAddress, ProbeAddress string
	// PlainMetrics serves metrics over HTTP, to everybody who reaches the port.
	PlainMetrics bool
	// LeaderElection keeps several replicas from acting at once.
	LeaderElection bool
	// Workers is how many databases are worked on at the same time in each scope.
	Workers int
	// Rolls is how many databases may be restarted instance by instance at once, RollFailures after how many of them have
	// stopped at harm no other one begins.
	Rolls, RollFailures int
	// Trials is how many databases may be restored on trial at once.
	Trials int
	// LostAfter is how long a node may be away before its instances are replaced.
	LostAfter time.Duration
	// Webhook has every replica answer the API server about objects before they are stored.
	Webhook bool
	// Verbose adds the borders of every stage to the log.
	Verbose bool
}

// Defaults are the options of an installation from deploy/.
func Defaults() Options {
	return Options{
		Home: HomeNamespace, MetricsAddress: ":" + strconv.Itoa(MetricsPort), ProbeAddress: ":8081",
		LeaderElection: true, Workers: 4, Webhook: true, LostAfter: 5 * time.Minute, Rolls: 10, RollFailures: 5,
		Trials:      10,
		Images:      database.Images{Server: "localhost/meridian/postgis"},
		CacheImages: cache.Images{Redis: "localhost/meridian/redis:8", Valkey: "localhost/meridian/valkey:8"},
	}
}

// PodFromEnvironment is the name of the pod that this process is in.
func PodFromEnvironment() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// HomeFromEnvironment is the namespace that the pod was told to be in.
func HomeFromEnvironment() string {
	if home := os.Getenv("POD_NAMESPACE"); home != "" {
		return home
	}
	return HomeNamespace
}

func (o Options) check() error {
	var problems []error
	if o.Home == "" {
		problems = append(problems, errors.New("the namespace of the operator is not known: set POD_NAMESPACE"))
	}
	if o.Images.Server == "" {
		problems = append(problems, errors.New("--server-image must be set"))
	}
	if o.CacheImages.Redis == "" || o.CacheImages.Valkey == "" {
		problems = append(problems, errors.New("--redis-image and --valkey-image must be set"))
	}
	if o.LostAfter < time.Minute {
		problems = append(problems, errors.New("--node-lost-after must be at least 1m: nodes restart"))
	}
	if o.Rolls < 0 || o.RollFailures < 0 || o.Trials < 0 {
		problems = append(problems, errors.New("--max-rolls, --max-roll-failures and --max-trials must not be negative"))
	}
	if o.Workers < 1 {
		problems = append(problems, errors.New("--workers must be at least 1"))
	}
	return errors.Join(problems...)
}

// installation is where the process works, in the words of kit/rbac.
func (o Options) installation() rbac.Installation {
	return Installation(o.Home, o.Namespaces)
}

func (o Options) level() slog.Level {
	if o.Verbose {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
