package search_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/sim/search"
)

// reads has a program that reads a ConfigMap from its cache without watching it. When the second Secret comes, that
// forbids a third one already.
func reads() search.Scenario {
	word := func(text string) *corev1.ConfigMap {
		made := &corev1.ConfigMap{Data: map[string]string{"third": text}}
		made.Namespace, made.Name = "a", "word"
		return made
	}
	third := client.ObjectKey{Namespace: "a", Name: "three"}
	scenario := small(nil)
	scenario.Programs[0].Memory = func(reconcile.Reconciler) string { return "" }
	scenario.Programs[0].Start = func(birth search.Birth) (reconcile.Reconciler, error) {
		own := birth.Process.Client()
		return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var found corev1.ConfigMap
			err := own.Get(ctx, client.ObjectKey{Namespace: "a", Name: "word"}, &found)
			if err == nil && found.Data["third"] == "allowed" && request.Name == "two" {
				err = client.IgnoreAlreadyExists(own.Create(ctx, secret(third.Name)))
			}
			return reconcile.Result{}, err
		}), nil
	}
	setUp := scenario.Setup
	scenario.Setup = func(ctx context.Context, cluster client.Client) error {
		return errors.Join(setUp(ctx, cluster), cluster.Create(ctx, word("allowed")))
	}
	scenario.Script = []search.Step{
		{Name: "forbid", Wait: time.Minute, Do: func(ctx context.Context, cluster client.Client) error {
			return cluster.Update(ctx, word("forbidden"))
		}},
		{Name: "the second", Do: func(ctx context.Context, cluster client.Client) error {
			return cluster.Create(ctx, secret("two"))
		}},
	}
	scenario.Finally = func(state search.State) error {
		if state.Get(context.Background(), third, &corev1.Secret{}) == nil {
			return errors.New("the third is there")
		}
		return nil
	}
	return scenario
}

// TestReadWithoutWatch: a cache follows what is read from it, as an informer that a read has started does.
func TestReadWithoutWatch(t *testing.T) {
	result, err := search.Run(reads(), search.Schedule{}, 300)
	if err != nil || result.Violation != nil {
		t.Errorf("%v, %v\n%s", err, result.Violation, result.Story())
	}
}

// TestReadWithoutWatchIsStale: a read of such a kind may be old as any other, and the search tries that.
func TestReadWithoutWatchIsStale(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("alone %t", alone), func(t *testing.T) {
			report, err := search.Explore(reads(), search.Options{Alone: alone})
			if err != nil {
				t.Fatal(err)
			}
			if report.Failure == nil {
				t.Fatal("nothing was found")
			}
			isOld := func(each search.Decision) bool { return each.Do == search.Hold && each.Kind == "ConfigMap" }
			if found := report.Failure.Schedule.Decisions; !slices.ContainsFunc(found, isOld) {
				t.Errorf("found by another fault: %v\n%s", found, report.Failure.Story())
			}
		})
	}
}
