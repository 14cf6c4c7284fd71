//go:build cluster

package test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestImagesRunRestricted(t *testing.T) {
	ns := namespace(t)
	content, err := os.ReadFile("testdata/images.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, ns, string(content))
	for pod, test := range map[string]struct {
		command []string
		want    string
	}{
		"redis":  {[]string{"redis-cli", "ping"}, "PONG"},
		"valkey": {[]string{"valkey-cli", "ping"}, "PONG"},
		"postgis-15": {[]string{"psql", "-h", "/tmp", "-U", "postgres", "-At",
			"-c", "create extension if not exists postgis", "-c", "select ST_AsText('POINT(1 2)'::geometry)"}, "POINT(1 2)"},
	} {
		t.Run(pod, func(t *testing.T) {
			eventually(t, "an answer", func() error {
				output, err := tryKubectl(t, append([]string{"-n", ns, "exec", pod, "--"}, test.command...)...)
				if err != nil || !strings.Contains(output, test.want) {
					return fmt.Errorf("%q, %w", output, err)
				}
				return nil
			})
		})
	}
	t.Run("meridian", func(t *testing.T) {
		eventually(t, "its end", func() error {
			phase := kubectl(t, "-n", ns, "get", "pod", "meridian", "-o", "jsonpath={.status.phase}")
			if phase != "Succeeded" {
				return fmt.Errorf("the pod is %s", phase)
			}
			return nil
		})
		if logs := kubectl(t, "-n", ns, "logs", "meridian"); !strings.Contains(logs, "meridian") {
			t.Errorf("it printed %q", logs)
		}
	})
}
