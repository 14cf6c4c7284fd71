package operator

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	figures "meridian.dev/meridian/internal/metrics"
)

// certificate is what the figures are served with, once there is one.
type certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// metricsOptions serve the figures over TLS, behind the gate. The certificate is that of the webhook, by the same
// authority; without a webhook it is one that nobody has signed, made anew at each start.
func (o Options) metricsOptions(present certificate) metricsserver.Options {
	served := metricsserver.Options{BindAddress: o.MetricsAddress}
	if o.PlainMetrics {
		return served
	}
	served.SecureServing, served.FilterProvider = true, gate
	served.TLSOpts = []func(*tls.Config){func(config *tls.Config) {
		config.MinVersion = tls.VersionTLS12
		if o.Webhook {
			config.GetCertificate = present
		}
	}}
	return served
}

func gate(config *rest.Config, caller *http.Client) (metricsserver.Filter, error) {
	tokens, err := authenticationclient.NewForConfigAndClient(config, caller)
	if err != nil {
		return nil, fmt.Errorf("make a client for the gate of the metrics: %w", err)
	}
	rights, err := authorizationclient.NewForConfigAndClient(config, caller)
	if err != nil {
		return nil, fmt.Errorf("make a client for the gate of the metrics: %w", err)
	}
	guarding := &figures.Gate{Tokens: tokens.TokenReviews(), Rights: rights.SubjectAccessReviews(), Now: time.Now}
	return func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return guarding.Wrap(handler), nil }, nil
}
