package operator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

const (
	// askEvery is between two questions to an API server that does not answer.
	askEvery = time.Second
	// askPatience bounds one question.
	askPatience = 5 * time.Second
	// rightsPatience is for how long rights that are missing are looked for again: an API server that has just started
	// answers before it knows who may do what. Nobody answers the probes meanwhile, and they bear twice as long.
	rightsPatience = 15 * time.Second
	// recheckNamespaces is how often namespaces that were left out are looked at.
	recheckNamespaces = time.Minute
)

// awaitRights repeats a check of the rights until it passes, or has failed for long enough to be believed.
func awaitRights(
	ctx context.Context, log logr.Logger, patience time.Duration, check func(context.Context) error,
) error {
	deadline := time.Now().Add(patience)
	problem := check(ctx)
	if problem != nil {
		log.Info("Rights are missing, and are looked for again: the API server may have just started",
			"for", patience.String(), "problem", problem.Error())
	}
	for problem != nil && time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return problem
		case <-time.After(askEvery):
		}
		problem = check(ctx)
	}
	return problem
}

// awaitNamespaces ends with an error, and the process with it, when the rights are given in one of the namespaces that
// were left out: the next process works there as well.
func awaitNamespaces(
	ctx context.Context, absent []string, every time.Duration, may func(context.Context, string) bool,
) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		for _, namespace := range absent {
			if may(ctx, namespace) {
				return fmt.Errorf("the rights in the namespace %s are given now: starting again to work there", namespace)
			}
		}
	}
}

// awaitServer waits until the API server answers, whatever it answers. A process that ended instead would be started
// again later and later by the kubelet, and would be away long after the API server is back. While it waits it is alive
// and not ready.
func awaitServer(ctx context.Context, config *rest.Config, probes string, log logr.Logger) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("read the address of the API server: %w", err)
	}
	address := server.JoinPath("version").String()
	problem := ask(ctx, client, address)
	if problem == nil {
		return nil
	}
	log.Info("Waiting for the API server", "problem", problem.Error())
	end, err := serveWaiting(probes)
	if err != nil {
		return err
	}
	defer end()
	for problem != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server: %w", problem)
		case <-time.After(askEvery):
		}
		problem = ask(ctx, client, address)
	}
	log.Info("The API server answers")
	return nil
}

// ask says why there is no answer. A refusal is one: who is refused what is for the check of the rights.
func ask(ctx context.Context, client *http.Client, address string) error {
	bounded, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("the API server says %s", response.Status)
	}
	return nil
}

// serveWaiting answers the probes until it is ended. Without an address there are none.
func serveWaiting(address string) (end func(), err error) {
	if address == "" || address == "0" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(out http.ResponseWriter, _ *http.Request) {
		http.Error(out, "waiting for the API server", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: askPatience}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
