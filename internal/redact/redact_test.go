package redact_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/internal/redact"
)

// hidden and its parts must not be found in any output.
const hidden = "hunter2-very-secret"

// leaks says that a part of the secret is left.
func leaks(text string) bool {
	return strings.Contains(text, "hunter2") || strings.Contains(text, "very-secret")
}

func TestText(t *testing.T) {
	for name, text := range map[string]string{
		"an address":                        "postgresql://app:" + hidden + "@cities-rw:5432/app",
		"an address without a name":         "redis://:" + hidden + "@tiles:6379",
		"an address with a token as user":   "https://" + hidden + "@example.com/x",
		"an at sign in the password":        "postgresql://app:hunter2@very-secret@cities-rw/app",
		"a slash in the password":           "postgresql://app:hunter2/very-secret@cities-rw/app",
		"a quote in the password":           "postgresql://app:hunter2'very-secret@cities-rw/app",
		"an address with a query":           "postgresql://cities-rw/app?user=app&password=" + hidden + "&sslmode=require",
		"a setting":                         "primary_conninfo = 'host=a password=" + hidden + " port=5432'",
		"a setting with spaces":             "host=a password = " + hidden,
		"a setting in quotes":               "host=a password='hunter2 very-secret' port=5432",
		"a setting with a quote in it":      `host=a password='hunter2\' very-secret' port=5432`,
		"a value with a comma":              "password=hunter2,very-secret",
		"a line of JSON":                    `{"msg":"x","password":"` + hidden + `","level":"info"}`,
		"a line of JSON with spaces":        `{"password" : "hunter2 very-secret"}`,
		"a line of JSON with a quote":       `{"password":"hunter2\" very-secret","b":1}`,
		"JSON in a line of JSON":            `{"msg":"{\"password\":\"hunter2 very-secret\"}"}`,
		"JSON in JSON with a quote":         `{"msg":"{\"password\":\"hunter2\\\" very-secret\"}"}`,
		"a number":                          `{"pin_token":123hunter2}`,
		"a statement":                       "alter role app password '" + hidden + "'",
		"a statement with a quote":          "ALTER ROLE app ENCRYPTED PASSWORD 'hunter2'' very-secret' VALID UNTIL 'x'",
		"a statement with escapes":          "alter role app password E'hunter2 very-secret'",
		"a statement with dollars":          "alter role app password $x$hunter2 very-secret$x$",
		"a statement that was cut off":      "alter role app password 'hunter2 very-secret",
		"values of a statement":             "DETAIL:  Parameters: $1 = 'hunter2', $2 = 'very-secret'",
		"a row":                             `DETAIL:  Key (email, name)=(hunter2@example.com, very-secret) already exists.`,
		"a header":                          "Authorization: Bearer " + hidden,
		"a header of the other kind":        "Authorization: Basic " + hidden,
		"a header without its name":         "sent bearer " + hidden,
		"a cookie":                          "Cookie: session=" + hidden + "; a=very-secret",
		"a verifier":                        "SCRAM-SHA-256$4096:" + hidden + "==$x:y",
		"a key":                             "-----BEGIN EC PRIVATE KEY-----\n" + hidden + "\n-----END EC PRIVATE KEY-----",
		"a key in JSON":                     `{"a":"-----BEGIN PRIVATE KEY-----\n` + hidden + `\n-----END PRIVATE KEY-----"}`,
		"a key that was cut off":            "-----BEGIN RSA PRIVATE KEY-----\n" + hidden,
		"a variable of a shell":             "PGPASSWORD=" + hidden + " psql",
		"a variable in quotes":              `export API_TOKEN="hunter2 very-secret"`,
		"a flag":                            "started with --admin-password " + hidden,
		"a flag in quotes":                  "started with --token 'hunter2 very-secret'",
		"a setting of a cache":              "requirepass: " + hidden,
		"a line of a cache's configuration": "requirepass " + hidden,
		"a command of a cache":              "AUTH app " + hidden,
		"a user of a cache":                 "ACL SETUSER app on >hunter2 >very-secret ~* +@all",
		"a line of YAML":                    "password: hunter2 very-secret",
		"a block of YAML":                   "password: |\n  hunter2\n  very-secret\nport: 1",
		"a name in capitals":                "Client_Secret=" + hidden,
		"a name with an s":                  "tokens: " + hidden,
	} {
		if got := redact.Text(text); leaks(got) || !strings.Contains(got, "REDACTED") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestHarmless shows that not everything is taken out.
func TestHarmless(t *testing.T) {
	for _, text := range []string{
		"cities-1 took the lease at term 3; secretName: cities-tls; no password is needed",
		"automountServiceAccountToken: false",
		`{"level":"info","msg":"Starting","instance":"cities-1","took":"1.2s"}`,
		"GET https://10.0.0.1:8700/v1/report: no answer within 2s",
		"FATAL:  password authentication failed for user \"app\"",
		"shared_buffers = 128MB",
	} {
		if got := redact.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	const line = `{"a":"b","password":"x y","c":"d"}`
	var read map[string]string
	if err := json.Unmarshal([]byte(redact.Text(line)), &read); err != nil || read["c"] != "d" {
		t.Errorf("a line of JSON became %q: %v", redact.Text(line), err)
	}
}

// hostile puts the secret wherever a pod can have one.
func hostile() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name = "cities-1-0"
	pod.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"env":"` + hidden + `"}`,
		"vault.example.com/inject":                         hidden,
		"meridian.dev/metadata":                            `{"annotations":{"a":"` + hidden + `"}}`,
		"meridian.dev/wish":                                "2.abc",
	}
	pod.Spec.Containers = []corev1.Container{
		{
			Name: "side", Command: []string{"sh", "-c", "run " + hidden}, Args: []string{"--password", hidden},
			Env: []corev1.EnvVar{
				{Name: "API_TOKEN", Value: hidden}, {Name: "HARMLESS", Value: hidden},
				{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/", HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Key", Value: hidden}},
			}}},
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				Exec: &corev1.ExecAction{Command: []string{"curl", hidden}},
			}},
		},
		{Name: "database", Command: []string{"/agent/meridian", "agent"}, Env: []corev1.EnvVar{{Name: "X", Value: hidden}}},
	}
	lasts := int64(3600)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cities-tls"}}},
		{Name: "csi", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: "x", VolumeAttributes: map[string]string{"user": hidden},
		}}},
		{Name: "account", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Path: "token", ExpirationSeconds: &lasts,
			}}},
		}}},
	}
	pod.Status.Message = "cannot connect to postgresql://app:" + hidden + "@x"
	return pod
}

func TestYAML(t *testing.T) {
	text, err := redact.YAML(hostile())
	if err != nil {
		t.Fatal(err)
	}
	if leaks(text) {
		t.Errorf("a secret is in\n%s", text)
	}
	for _, want := range []string{
		"meridian.dev/wish: 2.abc", "name: API_TOKEN", "fieldPath: metadata.name", "secretName: cities-tls",
		"/agent/meridian", "expirationSeconds: 3600", "vault.example.com/inject: REDACTED",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var back corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &back); err != nil {
		t.Errorf("what is left is no pod: %v", err)
	}
}

// TestTrees are objects in which fields have other shapes than Kubernetes gives them.
func TestTrees(t *testing.T) {
	for name, document := range map[string]string{
		"a Secret":                   `{"kind":"Secret","data":{"a":"hunter2"},"stringData":{"b":"very-secret"}}`,
		"a ConfigMap":                `{"kind":"ConfigMap","data":{"app.conf":"hunter2"},"binaryData":{"b":"hunter2"}}`,
		"settings that are no JSON":  `{"data":{"settings.json":"hunter2"}}`,
		"a parameter of somebody":    `{"spec":{"parameters":{"app.key":"hunter2","work_mem":"4MB"}}}`,
		"parameters as a list":       `{"parameters":[{"name":"a.b","value":"hunter2"},{"name":"work_mem","value":"4MB"}]}`,
		"parameters in settings":     `{"data":{"settings.json":"{\"parameters\":{\"a.b\":\"hunter2\"}}"}}`,
		"a command as a parameter":   `{"parameters":{"ssl_passphrase_command":"echo hunter2"}}`,
		"a storage class":            `{"provisioner":"x","parameters":{"restuserkey":"hunter2","work_mem":"hunter2"}}`,
		"a password that is a list":  `{"passwords":["hunter2",{"a":"very-secret"}]}`,
		"a variable without a name":  `{"env":[{"value":"hunter2"},"very-secret"]}`,
		"variables as a map":         `{"env":{"A":"hunter2"}}`,
		"arguments as a text":        `{"name":"side","args":"hunter2"}`,
		"annotations as a list":      `{"annotations":["hunter2"]}`,
		"a secret as a text":         `{"secret":"hunter2"}`,
		"a reference with a value":   `{"secret":{"secretName":"a","value":"hunter2"}}`,
		"a name that tells":          `{"name":"client-secret","value":"hunter2"}`,
		"a template in a template":   `{"template":{"spec":{"containers":[{"env":[{"name":"b","value":"hunter2"}]}]}}}`,
		"an address in a message":    `{"message":"redis://:hunter2@tiles"}`,
		"a name with a path before":  `{"aws.secret_access_key":"hunter2"}`,
		"a nested text under a name": `{"credentials":{"deep":{"deeper":"hunter2"}}}`,
	} {
		var tree any
		if err := json.Unmarshal([]byte(document), &tree); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := redact.YAML(tree)
		if err != nil || leaks(text) || !strings.Contains(text, "REDACTED") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if strings.Contains(document, "4MB") && !strings.Contains(text, "4MB") {
			t.Errorf("%s: a parameter of the server is gone:\n%s", name, text)
		}
	}
}

// TestRefusal shows what is left of the API server's answers.
func TestRefusal(t *testing.T) {
	at := field.NewPath("spec", "containers").Index(1).Child("env").Index(0)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "cities-1-trial", field.ErrorList{
		field.Invalid(at.Child("name"), "a="+hidden, "must not contain '='"),
		field.Invalid(at, map[string]string{"hunter2": "very-secret"}, "is odd: really"),
		field.NotSupported(at.Child("value"), `x"`+hidden, []string{"a", "b"}),
		field.Duplicate(at, hidden),
	})
	got := redact.Error(fmt.Errorf("create: %w", invalid))
	if leaks(got.Error()) {
		t.Errorf("a value is in %q", got)
	}
	for _, want := range []string{
		"spec.containers[1].env[0].name: Invalid value: must not contain '='", "supported values",
	} {
		if !strings.Contains(got.Error(), want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if !apierrors.IsInvalid(got) || !errors.Is(got, invalid) {
		t.Error("what kind of error it was is lost")
	}
	if redact.Error(nil) != nil {
		t.Error("no error became one")
	}
}
