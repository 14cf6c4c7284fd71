//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/test/e2e/checks"
)

// TestWindow gives the operator another version whose pods have another template. Outside the maintenance window
// nothing restarts; when it opens, the instances do, by themselves, under traffic.
func TestWindow(t *testing.T) {
	if *rollingChanges != "all" {
		t.Skip("it takes minutes; -changes=all does it")
	}
	if shared() {
		t.Skip("it needs an operator of its own")
	}
	f := newFailover(t)
	f.patch(`{"spec":{"maintenance":{"window":"` + windowAt(time.Now().Add(24*time.Hour)) + `","timeZone":"UTC"}}}`)
	f.awaitWell()
	pods, term := f.podUIDs(), f.leaseTerm(t.Context())
	defer f.c.kubectl("apply", "-k", "deploy") // The operator of before; a cleanup would come too late for a command.
	f.anotherVersion()
	f.c.until("what the new version brings is pending", 3*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		pending := strings.Join(database.Status.PendingChanges, "\n")
		return strings.Count(pending, "maintenance window that opens at") == 3, pending
	})
	time.Sleep(20 * time.Second)
	if moved := changed(pods, f.podUIDs()); moved > 0 {
		t.Errorf("%d pods were made anew outside the window", moved)
	}
	if now := f.leaseTerm(t.Context()); now != term {
		t.Errorf("the primary has moved outside the window: term %d, then %d", term, now)
	}
	f.openWindow(pods)
}

// openWindow moves the window to the next minutes, and waits until all is done.
func (f *failover) openWindow(pods map[string]types.UID) {
	f.t.Helper()
	f.awaitWell()
	term := f.term
	f.steer()
	f.startTraffic()
	f.awaitSteady("writes are accepted before the window")
	times := checks.Times{Fault: f.traffic.Now()}
	opens := time.Now().Add(70 * time.Second).Truncate(time.Minute)
	f.patch(`{"spec":{"maintenance":{"window":"` + windowAt(opens) + `"}}}`)
	early := 0
	f.c.until("the window opens", 3*time.Minute, func(context.Context) (bool, string) {
		early = max(early, changed(pods, f.podUIDs()))
		return !time.Now().Before(opens), ""
	})
	f.c.until("all instances are made anew", 4*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		return changed(pods, f.podUIDs()) == 3 && len(database.Status.PendingChanges) == 0 &&
			condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady), fmt.Sprintf("%+v", database.Status)
	})
	took := time.Since(opens)
	f.awaitWell()
	f.awaitSteady("writes are accepted after the window")
	times.End = f.traffic.Now()
	verdict := checks.Judge(f.endTraffic(times.Fault), f.present(), times)
	f.t.Logf("all three instances were made anew %s after the window opened; longest pause of writes %s, lost %d",
		took.Round(time.Second), ms(verdict.Gap), len(verdict.Lost))
	if early > 0 {
		f.t.Errorf("%d pods were made anew before the window opened", early)
	}
	if problem := verdict.Bad() + verdict.Invalid(); problem != "" {
		f.t.Error(problem)
	}
	if moves := f.leaseTerm(f.t.Context()) - term; moves != 1 {
		f.t.Errorf("the primary has moved %d times", moves)
	}
	f.checkCopies()
}

// anotherVersion builds the image of the operator under another tag, and has the operator start instances with it.
func (f *failover) anotherVersion() {
	f.t.Helper()
	// What a recipe compiles is in the folder above it.
	recipes, err := os.MkdirTemp(f.c.root, "images-next-")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = os.RemoveAll(recipes) })
	if err := os.CopyFS(recipes, os.DirFS(filepath.Join(f.c.root, "images"))); err != nil {
		f.t.Fatal(err)
	}
	recipe := filepath.Join(recipes, "meridian", "image.yaml")
	text, err := os.ReadFile(recipe)
	if err != nil {
		f.t.Fatal(err)
	}
	next := strings.Replace(string(text), "tag: dev", "tag: next", 1)
	if next == string(text) {
		f.t.Fatal("the recipe has no tag: dev")
	}
	if err := os.WriteFile(recipe, []byte(next), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.c.sandbox("image", "build", "meridian", "--images", recipes, "--load")
	f.c.kubectl("-n", operatorNamespace, "patch", "deployment", "meridian-operator", "--type=json", "-p",
		`[{"op":"add","path":"/spec/template/spec/containers/0/args/-",
		"value":"--agent-image=localhost/meridian/meridian:next"}]`)
	f.c.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/meridian-operator", "--timeout=180s")
}

// windowAt is one of ten minutes.
func windowAt(moment time.Time) string {
	moment = moment.UTC()
	return moment.Format("Mon 15:04-") + moment.Add(10*time.Minute).Format("15:04")
}

// changed counts the pods that are others than before.
func changed(before, now map[string]types.UID) int {
	count := 0
	for name, uid := range now {
		if before[name] != uid {
			count++
		}
	}
	return count
}
