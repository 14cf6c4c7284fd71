package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func TestCertificatesAreIssuedOnceAndVerify(t *testing.T) {
	c := open(t.TempDir())
	if err := c.issueAll(2); err != nil {
		t.Fatal(err)
	}
	read := func(file string) *x509.Certificate {
		content, err := os.ReadFile(c.path("pki", file+".crt"))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(content)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	serials := map[string]string{}
	for _, id := range identities(2) {
		roots := x509.NewCertPool()
		roots.AddCert(read(id.issuedBy))
		cert := read(id.file)
		serials[id.file] = cert.SerialNumber.String()
		usage := x509.ExtKeyUsageClientAuth
		if len(id.hosts) > 0 {
			usage = x509.ExtKeyUsageServerAuth
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Errorf("%s: %v", id.file, err)
		}
		for _, host := range id.hosts {
			if err := cert.VerifyHostname(host); err != nil {
				t.Errorf("%s: %v", id.file, err)
			}
		}
		if !slices.Equal(cert.Subject.Organization, id.groups) || cert.Subject.CommonName != id.user {
			t.Errorf("%s is issued to %s", id.file, cert.Subject)
		}
	}
	if err := c.issueAll(2); err != nil {
		t.Fatal(err)
	}
	for file, serial := range serials {
		if read(file).SerialNumber.String() != serial {
			t.Errorf("%s was issued again: a restarted cluster would not recognise its own", file)
		}
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil || clientcmd.ConfirmUsable(*config, "sandbox") != nil {
		t.Errorf("the administrator's kubeconfig: %v", err)
	}
}

func TestAgree(t *testing.T) {
	three := Config{Nodes: 3, Kubernetes: "1.36.3"}
	five := Config{Nodes: 5, Kubernetes: "1.36.3"}
	for name, test := range map[string]struct {
		existing *Config
		wanted   Config
		refusal  string
	}{
		"new":           {wanted: three},
		"same":          {existing: &three, wanted: three},
		"more nodes":    {existing: &three, wanted: five, refusal: "run 'sandbox down' first"},
		"other version": {existing: &three, wanted: Config{Nodes: 3, Kubernetes: "1.35.4"}, refusal: "not Kubernetes 1.35.4"},
		"other profile": {existing: &three, wanted: Config{Nodes: 3, Kubernetes: "1.36.3", Fast: true}, refusal: "fast"},
		"none":          {wanted: Config{Nodes: 0, Kubernetes: "1.36.3"}, refusal: "--nodes 0"},
		"too many":      {wanted: Config{Nodes: 10, Kubernetes: "1.36.3"}, refusal: "--nodes 10"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t.TempDir())
			if test.existing != nil {
				if err := c.saveConfig(*test.existing); err != nil {
					t.Fatal(err)
				}
			}
			err := c.agree(test.wanted)
			if (err != nil) != (test.refusal != "") || (err != nil && !strings.Contains(err.Error(), test.refusal)) {
				t.Errorf("error is %v, want %q in it", err, test.refusal)
			}
		})
	}
}

func TestNodeSettingsAreYAML(t *testing.T) {
	c := open("/somewhere")
	for _, fast := range []bool{false, true} {
		settings := map[string]any{}
		config := Config{Nodes: 3, Fast: fast}
		if err := yaml.UnmarshalStrict([]byte(c.kubeletConfig(config, 1)), &settings); err != nil {
			t.Fatal(err)
		}
		if _, set := settings["nodeLeaseDurationSeconds"]; set != fast {
			t.Errorf("with fast=%v the lease's duration is set: %v", fast, set)
		}
	}
}

func TestWithoutASandboxErrorsSayWhatToDo(t *testing.T) {
	c := open(t.TempDir())
	for name, err := range map[string]error{
		"stop":   c.StopNode(t.Context(), 1),
		"freeze": c.FreezeNode(t.Context(), 1),
		"api":    c.StopAPIServer(t.Context()),
		"volume": c.LoseVolume(t.Context(), "default", "none"),
		"image":  c.LoadImage(t.Context(), "none"),
	} {
		if err == nil || !strings.Contains(err.Error(), "'sandbox up'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
