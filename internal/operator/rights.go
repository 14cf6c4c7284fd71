package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/webhook"
	"meridian.dev/meridian/kit/rbac"
)

const electionName = "the election of the acting replica"

// Rights is everything that the process may do when it runs in the given namespace. Roles are rendered from it, and the
// check at start asks for it.
func Rights(home string, withWebhook bool) rbac.Table {
	var table rbac.Table
	for _, engine := range engines {
		table = append(table, engine.rights()...)
	}
	table = append(table,
		rbac.Row{
			Scope: rbac.Home, Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "update"},
			Names: []string{Name}, Why: "act alone", UsedBy: electionName,
		},
		rbac.Row{
			Scope: rbac.Home, Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create"},
			Why: "act alone from the first start on", UsedBy: electionName,
		},
	)
	table = append(append(table, imageRights()...), gateRights()...)
	if withWebhook {
		table = append(table, webhook.Rights(home)...)
	}
	return table
}

// gateRights is what it takes to know who may see the figures.
func gateRights() rbac.Table {
	const by = "the gate before the metrics"
	return rbac.Table{
		{
			Scope: rbac.Cluster, Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"},
			Why: "know whose token a caller brings", UsedBy: by,
		},
		{
			Scope: rbac.Cluster, Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"},
			Why: "know whether the caller may get the metrics", UsedBy: by,
		},
	}
}

// Installation says where an operator runs and works.
func Installation(home string, namespaces []string) rbac.Installation {
	return rbac.Installation{
		Name: Name, Home: home, ServiceAccount: Name, Namespaces: namespaces,
		Labels: map[string]string{database.LabelName: "meridian", database.LabelManagedBy: "meridian"},
	}
}

// preflight asks for every right before anything starts, and returns what is missing.
func preflight(
	ctx context.Context, config *rest.Config, table rbac.Table, in rbac.Installation,
) ([]rbac.Missing, error) {
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the check of rights: %w", err)
	}
	missing, err := rbac.Preflight(ctx, rbac.SelfReviewer(client.SelfSubjectAccessReviews()), table, in)
	if err != nil {
		return nil, fmt.Errorf("check rights: %w", err)
	}
	return missing, nil
}

// refusal names each right that is missing. Without one the operator would fail later, in the middle of something; so
// it stops before it starts.
func refusal(missing []rbac.Missing) error {
	var problems []error
	for _, one := range missing {
		problems = append(problems, errors.New(one.String()))
	}
	if len(problems) > 0 {
		problems = append(problems, errors.New("apply the output of `meridian rbac` with the same namespaces"))
	}
	return errors.Join(problems...)
}

// leaveOut takes the namespaces out in which no right at all is given, as in one that was deleted together with its
// roles: it must not keep the operator from working in the others. What is missing besides is an error, and so is a
// list of which nothing would be left.
func leaveOut(table rbac.Table, namespaces []string, missing []rbac.Missing) (left, out []string, err error) {
	refused, wanted := map[string]int{}, 0
	for _, row := range table {
		if row.Scope == rbac.Watched && !row.Implied {
			wanted += len(row.Verbs)
		}
	}
	for _, one := range missing {
		if one.Row.Scope == rbac.Watched && !one.Row.Implied {
			refused[one.Namespace] += len(one.Verbs)
		}
	}
	for _, namespace := range namespaces {
		if refused[namespace] == wanted {
			out = append(out, namespace)
			continue
		}
		left = append(left, namespace)
	}
	rest := slices.DeleteFunc(slices.Clone(missing), func(one rbac.Missing) bool {
		return one.Row.Scope == rbac.Watched && slices.Contains(out, one.Namespace)
	})
	if len(left) == 0 {
		rest = missing
	}
	return left, out, refusal(rest)
}
