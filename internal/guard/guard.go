// Package guard has the admission policies, which the API server enforces by itself, while no operator runs. The policy
// of leases: who leads is written by the agents alone, and a lease by which they agree is not deleted by mistake. The
// policy of agents: their accounts change nothing but where the write address leads and what a pod says of itself.
package guard

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

const (
	// Name is that of the policy of leases and of its binding. They belong to the cluster, and are the same for every
	// installation.
	Name = "meridian-leases"
	// Annotation on a lease lets it be changed and deleted by whoever has the right to: for repairs by hand.
	Annotation = database.AnnotationPrefix + "/unguarded"
	// Verb is the right, on geodatabases, to put the annotation on a lease. The right to patch leases is in the role edit
	// of every cluster, and is not enough.
	Verb = "unguard"
)

// The expressions. The name of a database has at most 40 characters, so the names of its children are never cut.
var (
	liftsGuard = fmt.Sprintf("'%[1]s' in object.metadata.?annotations.orValue({}) && "+
		"!('%[1]s' in oldObject.metadata.?annotations.orValue({}))", Annotation)
	mayLift = fmt.Sprintf("authorizer.group('%s').resource('geodatabases').namespace(request.namespace)."+
		"name(oldObject.metadata.?labels['%s'].orValue('')).check('%s').allowed()",
		v1alpha1.GroupVersion.Group, database.LabelAppOf, Verb)
	unguarded = fmt.Sprintf("'%s' in oldObject.metadata.?annotations.orValue({})", Annotation)
	byAgent   = fmt.Sprintf("request.userInfo.username == 'system:serviceaccount:' + request.namespace + ':' + "+
		"oldObject.metadata.labels['%s'] + '-agent'", database.LabelAppOf)
	sameRecord = fmt.Sprintf("object.metadata.?annotations['%[1]s'].orValue('') == "+
		"oldObject.metadata.?annotations['%[1]s'].orValue('')", wire.AnnotationRecord)
	sameLabels = fmt.Sprintf("['%s', '%s', '%s'].all(name, object.metadata.?labels[name].orValue('') == "+
		"oldObject.metadata.?labels[name].orValue(''))", database.LabelManagedBy, database.LabelComponent,
		database.LabelAppOf)
	ofDatabase = fmt.Sprintf("'%s' in oldObject.metadata.labels", database.LabelDatabase)
	byCluster  = "request.userInfo.username.startsWith('system:serviceaccount:kube-system:')"
)

// Policy is what the API server checks. If an expression fails, the request passes: nothing may stand between an agent
// and the renewal of its lease, and the agents do not trust a lease that was tampered with.
func Policy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy",
		},
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Ignore),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
					database.LabelManagedBy: "meridian", database.LabelComponent: "lease",
				}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{
							admissionregistrationv1.Update, admissionregistrationv1.Delete,
						},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"},
						},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{
				{
					Expression: fmt.Sprintf("request.operation != 'UPDATE' || !(%s) || %s", liftsGuard, mayLift),
					Message: "the annotation " + Annotation + " lifts the guard of this lease, and takes the right to " + Verb +
						" geodatabases (" + v1alpha1.GroupVersion.Group + "), which administrators of the cluster have; see the " +
						"runbook page LeaseLost",
				},
				{
					Expression: fmt.Sprintf("request.operation != 'UPDATE' || %s || %s || (object.spec == oldObject.spec && %s && %s)",
						byAgent, unguarded, sameRecord, sameLabels),
					Message: "spec, labels and record of this lease say who leads and are written by the agents alone; for " +
						"another primary ask for a switchover (kubectl meridian switchover), for a repair by hand see the " +
						"runbook page LeaseLost",
				},
				{
					Expression: fmt.Sprintf("request.operation != 'DELETE' || !(%s) || %s || %s || "+
						"has(oldObject.metadata.deletionTimestamp)", ofDatabase, byCluster, unguarded),
					Message: "this lease holds what the copies of a database have agreed on, and goes when the GeoDatabase is " +
						"deleted; for a repair by hand see the runbook page LeaseLost",
				},
			},
		},
	}
}

// Binding puts the policy of leases in force in the whole cluster.
func Binding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding { return binding(Name) }

func binding(policy string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding",
		},
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}
