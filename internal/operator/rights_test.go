package operator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian.dev/meridian/kit/rbac"
)

// TestLeaveOut has rights missing in namespaces: one in which none is given is left out, one in which some are is an
// error, and a list of which nothing would be left is one too.
func TestLeaveOut(t *testing.T) {
	table := Rights("home", false)
	missing := func(namespace string, most int) (list []rbac.Missing) {
		for _, row := range table {
			if row.Scope == rbac.Watched && len(list) < most {
				list = append(list, rbac.Missing{Row: row, Namespace: namespace, Verbs: row.Verbs})
			}
		}
		return list
	}
	cluster := rbac.Missing{Row: rbac.Row{Scope: rbac.Cluster, Resource: "nodes"}, Verbs: []string{"get"}}
	all := len(table)
	for name, test := range map[string]struct {
		missing []rbac.Missing
		left    []string
		fails   string
	}{
		"one is deleted":            {missing("roses", all), []string{"tulips"}, ""},
		"one lacks a right":         {missing("roses", 1), []string{"roses", "tulips"}, "roses"},
		"both are deleted":          {append(missing("roses", all), missing("tulips", all)...), nil, "tulips"},
		"one, and a right for all":  {append(missing("roses", all), cluster), []string{"tulips"}, "nodes"},
		"one, and a right of other": {append(missing("roses", all), missing("tulips", 1)...), []string{"tulips"}, "tulips"},
	} {
		t.Run(name, func(t *testing.T) {
			left, out, err := leaveOut(table, []string{"roses", "tulips"}, test.missing)
			if !slices.Equal(left, test.left) || len(left)+len(out) != 2 {
				t.Errorf("works in %q without %q, want %q", left, out, test.left)
			}
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("error %v, want one about %q", err, test.fails)
			}
		})
	}
}

// TestAwaitNamespaces ends when a namespace that was left out has its roles.
func TestAwaitNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), 0
		err := awaitNamespaces(t.Context(), []string{"roses"}, time.Minute, func(context.Context, string) bool {
			asked++
			return asked == 3
		})
		if err == nil || !strings.Contains(err.Error(), "roses") || time.Since(begun) != 3*time.Minute {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
	})
}
