package rbac

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Reviewer answers whether the program itself may do what is asked.
type Reviewer interface {
	Review(ctx context.Context, question authorizationv1.ResourceAttributes) (
		authorizationv1.SubjectAccessReviewStatus, error)
}

// Missing is a row of the table, or a part of one, that the program may not use
// in one place.
type Missing struct {
	// Row is the row in question.
	Row Row
	// Namespace is the place; empty means all namespaces, or the cluster as such.
	Namespace string
	// Verbs are those of the row that are refused.
	Verbs []string
	// Reason is what the API server says about the first of them, if anything.
	Reason string
}

// String returns a sentence for whoever installed the program.
func (m Missing) String() string {
	text := fmt.Sprintf("may not %s %s %s: %s needs this to %s",
		strings.Join(m.Verbs, ", "), m.Row, placeName(m.Row.Scope, m.Namespace), m.Row.UsedBy, m.Row.Why)
	if m.Reason != "" {
		text += " (the API server says: " + m.Reason + ")"
	}
	return text
}

func placeName(scope Scope, namespace string) string {
	switch {
	case namespace != everywhere:
		return fmt.Sprintf("in namespace %q", namespace)
	case scope == Cluster:
		return "in the cluster"
	}
	return "in all namespaces"
}

// Preflight asks about every right of the table, in every place where the
// installation needs it, and returns what is missing, in the order of the rows.
// An error means that a question got no answer, so that nothing is known. Of the
// installation only Home and Namespaces are looked at.
//
// A program may stop on the result, or go on with less: the rows are in it.
func Preflight(ctx context.Context, reviewer Reviewer, table Table, in Installation) ([]Missing, error) {
	if err := table.Check(); err != nil {
		return nil, fmt.Errorf("check the table of rights: %w", err)
	}
	asked := interview{reviewer: reviewer, answers: map[authorizationv1.ResourceAttributes]answer{}}
	var missing []Missing
	for _, row := range table {
		if row.Scope == Home && in.Home == "" {
			return nil, fmt.Errorf("ask for the rights to %s: the home namespace is not known", row)
		}
		for _, place := range in.places(row.Scope) {
			found, err := asked.about(ctx, row, place)
			if err != nil {
				return nil, err
			}
			if len(found.Verbs) > 0 {
				missing = append(missing, found)
			}
		}
	}
	return missing, nil
}

// interview remembers the answers, because rows overlap and questions cost.
type interview struct {
	reviewer Reviewer
	answers  map[authorizationv1.ResourceAttributes]answer
}

type answer struct {
	allowed bool
	reason  string
}

func (i interview) about(ctx context.Context, row Row, place string) (Missing, error) {
	missing := Missing{Row: row, Namespace: place}
	for _, verb := range row.Verbs {
		for _, name := range namesOrAll(row.Names) {
			got, err := i.ask(ctx, right{row.Group, row.Resource, verb, name}, place)
			if err != nil {
				return Missing{}, fmt.Errorf("ask for the right to %s %s %s: %w", verb, row, placeName(row.Scope, place), err)
			}
			if got.allowed {
				continue
			}
			if len(missing.Verbs) == 0 {
				missing.Reason = got.reason
			}
			missing.Verbs = append(missing.Verbs, verb)
			break
		}
	}
	return missing, nil
}

func (i interview) ask(ctx context.Context, one right, place string) (answer, error) {
	resource, sub, _ := strings.Cut(one.resource, "/")
	question := authorizationv1.ResourceAttributes{
		Namespace: place, Verb: one.verb, Group: one.group, Resource: resource, Subresource: sub, Name: one.name,
	}
	if known, found := i.answers[question]; found {
		return known, nil
	}
	status, err := i.reviewer.Review(ctx, question)
	if err != nil {
		return answer{}, err
	}
	got := answer{allowed: status.Allowed, reason: status.Reason}
	if got.reason == "" {
		got.reason = status.EvaluationError
	}
	i.answers[question] = got
	return got, nil
}

// SelfReviewer asks the API server, about the account that the client uses.
func SelfReviewer(client authorizationclient.SelfSubjectAccessReviewInterface) Reviewer {
	return selfReviewer{client}
}

type selfReviewer struct {
	client authorizationclient.SelfSubjectAccessReviewInterface
}

func (s selfReviewer) Review(ctx context.Context, question authorizationv1.ResourceAttributes) (
	authorizationv1.SubjectAccessReviewStatus, error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &question},
	}
	answered, err := s.client.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, fmt.Errorf("create a self subject access review: %w", err)
	}
	return answered.Status, nil
}
