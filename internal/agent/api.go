package agent

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"meridian.dev/meridian/kit/call"
)

// APIOptions say where the API server is.
type APIOptions struct {
	// Host and Port are such as 10.0.0.1 and 443.
	Host, Port string
	// Folder is where the token and the authority are mounted.
	Folder string
}

// server makes calls with what is mounted. The token is replaced every hour, and the authority at times, so both are
// read again and again.
func (o APIOptions) server() (*call.Server, error) {
	if o.Host == "" || o.Port == "" || o.Folder == "" {
		return nil, errors.New("the environment does not say where the API server is: KUBERNETES_SERVICE_HOST and " +
			"KUBERNETES_SERVICE_PORT must be there, and the token of a service account")
	}
	return &call.Server{
		URL: "https://" + net.JoinHostPort(o.Host, o.Port), Agent: "meridian-agent",
		Token: func() (string, error) {
			token, err := os.ReadFile(filepath.Join(o.Folder, "token"))
			return strings.TrimSpace(string(token)), err
		},
		Trust: func() (*x509.CertPool, error) {
			bundle, err := os.ReadFile(filepath.Join(o.Folder, "ca.crt"))
			if err != nil {
				return nil, err
			}
			trust := x509.NewCertPool()
			if !trust.AppendCertsFromPEM(bundle) {
				return nil, fmt.Errorf("%s holds no certificate", filepath.Join(o.Folder, "ca.crt"))
			}
			return trust, nil
		},
	}, nil
}
