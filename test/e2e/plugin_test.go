//go:build cluster

package e2e_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/recall"
	"meridian.dev/meridian/kit/condition"
)

const pluginSpace = "e2e-plugin"

// TestPlugin calls every verb of `kubectl meridian` on a real database, as an administrator and as somebody who may
// look at databases and at nothing else.
func TestPlugin(t *testing.T) {
	beside(t)
	c := connect(t)
	build(c)
	install(c)
	programs(c)
	c.namespace(pluginSpace)
	c.kubectl("apply", "-n", pluginSpace, "-f", "deploy/samples/quickstart.yaml")
	key := client.ObjectKey{Namespace: pluginSpace, Name: "cities"}
	c.until("the database is Ready", 3*time.Minute, func(ctx context.Context) (bool, string) {
		var database v1alpha1.GeoDatabase
		err := c.Get(ctx, key, &database)
		return err == nil && condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady),
			fmt.Sprintf("%v %+v", err, database.Status)
	})
	t.Logf("status:\n%s", c.meridian("status", "cities"))
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"status", "cities"}, []string{"well", "cities-1", "cities-2", "cities-3", "holds it at term", "tiles"}},
		{[]string{"status", "-A", "-o", "yaml"}, []string{"namespace: " + pluginSpace}},
		{[]string{"check", "cities"}, []string{"ok       writes are accepted", ": 0 failed"}},
		{[]string{"explain", "cities"}, []string{"nothing to do"}},
		{[]string{"events", "cities"}, []string{"geodatabase/cities", "AsWished"}},
		{[]string{"logs", "cities", "--role", "primary", "--tail", "20"}, []string{"primary  {"}},
		{[]string{"psql", "cities", "--", "-Atc", "select 'recovering', pg_is_in_recovery()"}, []string{"recovering|f"}},
		{[]string{"psql", "cities", "--replica", "--", "-Atc", "select pg_is_in_recovery()"}, []string{"t\n"}},
		{[]string{"runbook", "NoPrimary"}, []string{"# NoPrimary"}},
		{[]string{"version"}, []string{"localhost/meridian/meridian:dev", "v1."}},
		{[]string{"switchover", "cities"}, []string{"is the primary, at term 2"}},
	} {
		output := c.meridian(test.args...)
		for _, want := range test.want {
			if !strings.Contains(output, want) {
				t.Errorf("%v does not say %q:\n%s", test.args, want, output)
			}
		}
	}
	checkScrape(c)
	checkSnapshot(c)
	checkFewRights(c)
}

// checkScrape scrapes an instance and a cache, as Prometheus does. The instance was the primary a moment ago: its
// server starts anew as a replica, and says so in its figures.
func checkScrape(c *cluster) {
	c.t.Helper()
	raw := "/api/v1/namespaces/" + pluginSpace + "/pods/%s:8701/proxy/metrics"
	for path, wanted := range map[string][]string{
		fmt.Sprintf(raw, "cities-1-0"): {
			"meridian_postgres_up 1", "meridian_postgres_commits_total", "meridian_volume_size_bytes",
		},
		fmt.Sprintf(raw, "tiles-1-0"): {"meridian_cache_up 1", "meridian_cache_memory_allowed_bytes"},
	} {
		c.until(path+" has its figures", time.Minute, func(context.Context) (bool, string) {
			text := c.kubectl("get", "--raw", path)
			missing := slices.DeleteFunc(slices.Clone(wanted), func(want string) bool { return strings.Contains(text, want) })
			return len(missing) == 0, fmt.Sprintf("it does not say %q:\n%s", missing, text)
		})
	}
	c.until("the status shows volume and lag", time.Minute, func(context.Context) (bool, string) {
		status := c.meridian("status", "cities")
		volume := strings.Contains(status, " of 1Gi (") || strings.Contains(status, "Mi (")
		return volume && strings.Contains(status, "ms "), status
	})
}

// meridian calls the plugin through kubectl, as a user does.
func (c *cluster) meridian(args ...string) string {
	c.t.Helper()
	return c.kubectl(append([]string{"meridian", "-n", pluginSpace}, args...)...)
}

// checkSnapshot looks for the password of the application in the bundle.
func checkSnapshot(c *cluster) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "bundle.tar.gz")
	c.t.Log(c.meridian("snapshot", "cities", "--file", file))
	var secrets corev1.SecretList
	if err := c.List(c.t.Context(), &secrets, client.InNamespace(pluginSpace)); err != nil || len(secrets.Items) == 0 {
		c.t.Fatalf("no Secret to look for: %v", err)
	}
	stored, err := os.Open(file)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = stored.Close() }()
	zip, err := gzip.NewReader(stored)
	if err != nil {
		c.t.Fatal(err)
	}
	files := 0
	for reader := tar.NewReader(zip); ; files++ {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, readErr := io.ReadAll(reader)
		if err != nil || readErr != nil {
			c.t.Fatal(err, readErr)
		}
		for _, secret := range secrets.Items {
			for _, name := range []string{"password", "uri", "tls.key", "operator.key"} {
				if value := string(secret.Data[name]); value != "" && strings.Contains(string(content), value) {
					c.t.Errorf("%s has the %s of the Secret %s in it", header.Name, name, secret.Name)
				}
			}
		}
	}
	if files < 20 {
		c.t.Errorf("only %d files in the bundle", files)
	}
	story := storyOf(c, file)
	if decision := recall.Play(story); len(decision.Violations) > 0 || len(story.Seen.Instances) != 3 {
		c.t.Errorf("recalled: %+v\n%+v", decision, story)
	}
	if len(story.Unread) > 0 {
		c.t.Errorf("an administrator could not read %q", story.Unread)
	}
}

// storyOf is what the operator saw, from the bundle.
func storyOf(c *cluster, file string) recall.Story {
	c.t.Helper()
	bundle, err := os.Open(file)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = bundle.Close() }()
	story, err := recall.Open(bundle)
	if err != nil {
		c.t.Fatal(err)
	}
	return story
}

// checkFewRights acts as a user who may read databases alone.
func checkFewRights(c *cluster) {
	c.t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: pluginSpace, Name: "looker"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"meridian.dev"}, Resources: []string{"geodatabases"}, Verbs: []string{"get", "list"},
		}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pluginSpace, Name: "looker"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "looker"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "looker"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
	output := c.meridian("--as", "looker", "status", "cities", "-o", "json")
	var seen struct {
		Primary   string
		Instances []any
		Unread    []string
	}
	if err := json.Unmarshal([]byte(output), &seen); err != nil {
		c.t.Fatal(err)
	}
	if seen.Primary == "" || len(seen.Instances) != 3 || len(seen.Unread) < 3 {
		c.t.Errorf("with few rights it shows %s", output)
	}
	file := filepath.Join(c.t.TempDir(), "few.tar.gz")
	c.meridian("--as", "looker", "snapshot", "cities", "--file", file)
	if story := storyOf(c, file); len(story.Unread) < 5 || story.Seen.Name != "cities" {
		c.t.Errorf("with few rights the bundle says %+v", story)
	}
	asked := exec.CommandContext(c.t.Context(), filepath.Join(c.root, "bin", "sandbox"), "kubectl", "meridian", "-n",
		pluginSpace, "--as", "looker", "switchover", "cities")
	if said, err := asked.CombinedOutput(); err == nil || !strings.Contains(string(said), "forbidden") {
		c.t.Errorf("somebody without the right has asked for a switchover: %v %s", err, said)
	}
}
