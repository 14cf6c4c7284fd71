package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"meridian.dev/meridian/api/v1alpha1"
	figures "meridian.dev/meridian/internal/metrics"
	"meridian.dev/meridian/internal/platform"
	"meridian.dev/meridian/internal/webhook"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/kit/rbac"
)

// Run runs the operator until the context ends. It returns an error if it could not start or had to stop.
func Run(ctx context.Context, config *rest.Config, options Options, output io.Writer) error {
	if err := options.check(); err != nil {
		return err
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(output, &slog.HandlerOptions{Level: options.level()}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)

	if err := awaitServer(ctx, config, options.ProbeAddress, logger); err != nil {
		return err
	}
	if err := checkVersion(config, logger); err != nil {
		return err
	}
	logger.Info("Checking rights", "namespaces", options.Namespaces)
	absent, err := options.checkRights(ctx, config, logger)
	if err != nil {
		return err
	}
	if options.Images.Agent == "" {
		if options.Images.Agent, err = ownImage(ctx, config, options.Home, options.Pod); err != nil {
			return err
		}
	}
	assembled, err := assemble(ctx, config, options)
	if err != nil {
		return err
	}
	if len(absent) > 0 {
		if err := assembled.Add(manager.RunnableFunc(func(ctx context.Context) error {
			return awaitNamespaces(ctx, absent, recheckNamespaces, options.mayWorkIn(config))
		})); err != nil {
			return fmt.Errorf("add the look at namespaces without rights: %w", err)
		}
	}
	logger.Info("Starting", "agentImage", options.Images.Agent, "serverImage", options.Images.Server)
	return assembled.Start(ctx)
}

// checkVersion refuses an API server that lacks what Meridian cannot do without.
func checkVersion(config *rest.Config, log logr.Logger) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	server, err := client.ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	refusal, remark := platform.Version(server.GitVersion)
	if refusal != "" {
		return errors.New(refusal)
	}
	if remark != "" {
		log.Info("Going on with a version that is not tried", "remark", remark)
	}
	return nil
}

// checkRights ends with an error if rights are missing, and takes the namespaces out of the options, and returns them,
// in which none is given.
func (o *Options) checkRights(ctx context.Context, config *rest.Config, log logr.Logger) (absent []string, err error) {
	table := Rights(o.Home, o.Webhook)
	var missing []rbac.Missing
	err = awaitRights(ctx, log, rightsPatience, func(ctx context.Context) error {
		var problem error
		if missing, problem = preflight(ctx, config, table, o.installation()); problem != nil {
			return problem
		}
		return refusal(missing)
	})
	if err == nil || len(missing) == 0 {
		return nil, err
	}
	if o.Namespaces, absent, err = leaveOut(table, o.Namespaces, missing); err != nil {
		return nil, err
	}
	log.Error(errors.New("no right is given in these namespaces, as if they were deleted"),
		"Leaving namespaces out until their roles are there", "namespaces", absent)
	return absent, nil
}

// mayWorkIn asks whether all rights are given in a namespace.
func (o Options) mayWorkIn(config *rest.Config) func(context.Context, string) bool {
	return func(ctx context.Context, namespace string) bool {
		in := Installation(o.Home, []string{namespace})
		missing, err := preflight(ctx, config, Rights(o.Home, o.Webhook), in)
		return err == nil && len(missing) == 0
	}
}

// assemble puts every loop of every scope into one manager.
func assemble(ctx context.Context, config *rest.Config, options Options) (manager.Manager, error) {
	kinds, err := newScheme()
	if err != nil {
		return nil, err
	}
	lock, err := newLock(config, options.Home)
	if err != nil {
		return nil, err
	}
	var hook *webhook.Server
	deadline := renewDeadline
	assembled, err := manager.New(config, manager.Options{
		Scheme:                              kinds,
		LeaderElection:                      options.LeaderElection,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		RenewDeadline:                       &deadline,
		HealthProbeBindAddress:              options.ProbeAddress,
		Metrics: options.metricsOptions(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return hook.Certificate(hello)
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{assembled.AddHealthzCheck, assembled.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return nil, fmt.Errorf("add a health check: %w", err)
		}
	}
	measured, err := loop.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	observer, err := figures.NewObserver(metrics.Registry, time.Now)
	if err != nil {
		return nil, err
	}
	if options.Webhook {
		if hook, err = webhook.Add(assembled, webhook.Options{Home: options.Home}); err != nil {
			return nil, fmt.Errorf("add the webhook: %w", err)
		}
	}
	for _, scope := range options.scopes(measured) {
		scope.observer = observer
		if options.LeaderElection {
			scope.leads = leads(assembled.GetAPIReader(), options.Home, lock.Identity())
		}
		if err := scope.add(ctx, assembled); err != nil {
			return nil, err
		}
	}
	return assembled, nil
}

func newScheme() (*runtime.Scheme, error) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	return kinds, nil
}
