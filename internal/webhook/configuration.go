package webhook

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/rbac"
)

const (
	// Name is that of the Secret with the certificates and of the Service, in the namespace of the operator.
	Name = "meridian-webhook"
	// Port is where each replica of the operator listens.
	Port = 9443

	// patience is how long the API server waits for an answer. Our own rules take microseconds and the facts are given
	// up after a second, so more would only make users wait for a replica that is gone.
	patience = 3
)

// kinds are what the API server asks about, in the order of their names. Objects of each are sent to a path of their
// own, and judged there.
var kinds = []struct {
	resource, path string
	judge          func(factReader) judge
}{
	{"geocaches", "/validate/geocache", func(factReader) judge { return judgeCache }},
	{"geodatabases", "/validate/geodatabase", func(facts factReader) judge { return facts.judgeDatabase }},
}

// ConfigurationName is the name of the configuration of the operator that runs in a namespace. It belongs to the
// cluster, so two operators that divide its namespaces need two.
func ConfigurationName(home string) string { return Name + "." + home }

// Configuration returns what has to be installed for the API server to ask. Without it there is no webhook, and nothing
// else is missing. It is installed without authorities: the operator fills them in, and has no right to do more.
//
// An update that does not change the spec is not asked about, nor is an object that is being deleted: nothing may stand
// between a finalizer and its removal. Subresources are not asked about either: status is our own report, and scale
// changes one number, which the schema bounds.
func Configuration(home string, namespaces []string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	validating := func(resource, path string) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: resource + "." + v1alpha1.GroupVersion.Group,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: home, Name: Name, Path: &path, Port: new(int32(443)),
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update,
				},
				Rule: admissionregistrationv1.Rule{
					APIGroups:   []string{v1alpha1.GroupVersion.Group},
					APIVersions: []string{v1alpha1.GroupVersion.Version},
					Resources:   []string{resource},
					Scope:       new(admissionregistrationv1.NamespacedScope),
				},
			}},
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "the-spec-changes",
					Expression: "request.operation == 'CREATE' || object.spec != oldObject.spec"},
				{Name: "it-stays", Expression: "!has(object.metadata.deletionTimestamp)"},
			},
			NamespaceSelector:       only(namespaces),
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(patience)),
			AdmissionReviewVersions: []string{"v1"},
		}
	}
	webhooks := make([]admissionregistrationv1.ValidatingWebhook, 0, len(kinds))
	for _, kind := range kinds {
		webhooks = append(webhooks, validating(kind.resource, kind.path))
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration",
		},
		ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName(home)},
		Webhooks:   webhooks,
	}
}

// only selects the namespaces of the list, or all of them.
func only(namespaces []string) *metav1.LabelSelector {
	if len(namespaces) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces,
	}}}
}

// Service returns the Service that leads the API server to the replicas of the operator, which the selector finds.
func Service(home string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: home},
		Spec: corev1.ServiceSpec{
			Selector: selector,
			Ports: []corev1.ServicePort{{
				Name: "https", Port: 443, TargetPort: intstr.FromInt32(Port), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}

// Rights are what the webhook needs beside what the loops need. The configuration may not exist: then get is all that
// is used of its row.
func Rights(home string) rbac.Table {
	const by = "the webhook"
	return rbac.Table{
		{
			Scope: rbac.Home, Resource: "secrets", Verbs: []string{"get", "update"}, Names: []string{Name},
			Why: "share certificates among replicas", UsedBy: by,
		},
		{
			Scope: rbac.Home, Resource: "secrets", Verbs: []string{"create"},
			Why: "keep the first certificates", UsedBy: by,
		},
		{
			Scope: rbac.Cluster, Group: admissionregistrationv1.GroupName, Resource: "validatingwebhookconfigurations",
			Verbs: []string{"get", "patch"}, Names: []string{ConfigurationName(home)},
			Why: "tell the API server which authorities to trust", UsedBy: by,
		},
		{
			Scope: rbac.Cluster, Group: "storage.k8s.io", Resource: "storageclasses", Verbs: []string{"list"},
			Why: "refuse volumes that cannot be made or grown", UsedBy: by,
		},
		{
			Scope: rbac.Watched, Resource: "persistentvolumeclaims", Verbs: []string{"list"},
			Why: "refuse to shrink volumes that were kept", UsedBy: by,
		},
	}
}
