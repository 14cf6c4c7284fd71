package guard

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/kind"
	"meridian.dev/meridian/internal/wire"
)

// AgentsName is the name of the policy of agents and of its binding.
const AgentsName = "meridian-agents"

// The variables of the policy of agents. Every access is optional: the policy fails closed, so no expression may fail.
var agentVariables = []admissionregistrationv1.Variable{
	{Name: "owner", Expression: ownerOf},
	// The pod that the token was made for. A token without one was asked for by hand, or somebody impersonates the agent.
	{
		Name:       "caller",
		Expression: "request.userInfo.?extra['authentication.kubernetes.io/pod-name'][0].orValue('')",
	},
	{Name: "endpoints", Expression: "has(object.endpoints) && object.endpoints != null ? object.endpoints : []"},
	{Name: "labels", Expression: "object.metadata.?labels.orValue({})"},
	{Name: "oldLabels", Expression: "oldObject.metadata.?labels.orValue({})"},
	{Name: "annotations", Expression: "object.metadata.?annotations.orValue({})"},
	{Name: "oldAnnotations", Expression: "oldObject.metadata.?annotations.orValue({})"},
	{
		Name: "sameOwnership",
		Expression: "object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([]) && " +
			"object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([])",
	},
}

// ownerOf is the resource that the object belongs to, of whatever kind.
var ownerOf = func() string {
	owner := "''"
	for _, one := range slices.Backward(kind.All) {
		owner = fmt.Sprintf("oldObject.metadata.?labels['%s'].orValue(%s)", one.Label, owner)
	}
	return owner
}()

// same says that two maps are equal but for the given keys.
func same(is, was string, except ...string) string {
	free := "[]"
	if len(except) > 0 {
		free = "['" + strings.Join(except, "', '") + "']"
	}
	return fmt.Sprintf("%[1]s.all(key, key in %[3]s || %[2]s[?key] == %[1]s[?key]) && "+
		"%[2]s.all(key, key in %[3]s || key in %[1]s)", is, was, free)
}

// AgentsPolicy limits what the account of an agent can change of the objects that it may write: where its write address
// leads, and what it says of itself on its own pod. Rights cannot say so much: who may update an EndpointSlice may make
// it that of another Service, and who may patch a pod may give it any label and another image.
//
// It fails closed, unlike that of leases: a copy that cannot be routed to for a while loses nothing.
func AgentsPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	const (
		onSlices = "request.resource.resource != 'endpointslices' || "
		onPods   = "request.resource.resource != 'pods' || "
	)
	rule := func(group, resource string) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource},
			},
		}}
	}
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy",
		},
		ObjectMeta: metav1.ObjectMeta{Name: AgentsName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{database.LabelManagedBy: "meridian"}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
					rule("discovery.k8s.io", "endpointslices"), rule("", "pods"),
				},
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "by-its-agent",
				Expression: fmt.Sprintf("request.userInfo.username == 'system:serviceaccount:' + request.namespace + ':' + "+
					"(%s) + '-agent'", ownerOf),
			}},
			Variables: agentVariables,
			Validations: []admissionregistrationv1.Validation{
				{
					Expression: onSlices + "object.addressType == oldObject.addressType && object.?ports == oldObject.?ports && " +
						"variables.sameOwnership && " + same("variables.labels", "variables.oldLabels") + " && " +
						same("variables.annotations", "variables.oldAnnotations", wire.AnnotationTerm),
					Message: "an agent changes only the endpoints and the annotation " + wire.AnnotationTerm +
						" of its write address",
				},
				{
					Expression: onSlices + "(variables.endpoints.size() <= 1 && variables.endpoints.all(endpoint, " +
						"endpoint.addresses.size() == 1 && endpoint.?targetRef.kind.orValue('') == 'Pod' && " +
						"endpoint.?targetRef.namespace.orValue('') == request.namespace && " +
						"(variables.caller == '' ? endpoint.?targetRef.name.orValue('').startsWith(variables.owner + '-') : " +
						"endpoint.?targetRef.name.orValue('') == variables.caller)))",
					Message: "an agent writes one endpoint into its write address, its own pod, or none",
				},
				{
					Expression: onPods + "object.spec == oldObject.spec && variables.sameOwnership && " +
						same("variables.labels", "variables.oldLabels", wire.AgentLabels()...) + " && " +
						same("variables.annotations", "variables.oldAnnotations", wire.AgentAnnotations()...),
					Message: "an agent changes only these labels and annotations of its pod: " +
						strings.Join(append(wire.AgentLabels(), wire.AgentAnnotations()...), ", "),
				},
				{
					Expression: onPods + "variables.caller == '' || variables.caller == request.name",
					Message:    "an agent changes its own pod alone",
				},
			},
		},
	}
}

// AgentsBinding puts the policy of agents in force in the whole cluster.
func AgentsBinding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return binding(AgentsName)
}
