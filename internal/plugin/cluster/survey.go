package cluster

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/plugin/view"
)

// Survey reads what a cluster has for databases in a namespace. Nothing is made: the pod that is asked about is a dry
// run.
func (c *Cluster) Survey(ctx context.Context, namespace string) view.Surroundings {
	facts := view.Surroundings{Namespace: namespace, Unread: map[string]string{}}
	if server, err := c.Plain.Discovery().ServerVersion(); err != nil {
		facts.Unread[view.CheckVersion] = err.Error()
	} else {
		facts.Version = server.GitVersion
	}
	if groups, err := c.Plain.Discovery().ServerGroups(); err == nil {
		for _, group := range groups.Groups {
			facts.OpenShift = facts.OpenShift || group.Name == "security.openshift.io"
		}
	}
	read := func(check string, list client.ObjectList, in ...client.ListOption) {
		if err := c.List(ctx, list, in...); err != nil {
			facts.Unread[check] = err.Error()
		}
	}
	var classes storagev1.StorageClassList
	read(view.CheckClass, &classes)
	var quotas corev1.ResourceQuotaList
	read(view.CheckQuota, &quotas, client.InNamespace(namespace))
	var ranges corev1.LimitRangeList
	read(view.CheckQuota, &ranges, client.InNamespace(namespace))
	var policies networkingv1.NetworkPolicyList
	read(view.CheckOutwards, &policies, client.InNamespace(namespace))
	facts.Classes, facts.Quotas, facts.Ranges, facts.Policies = classes.Items, quotas.Items, ranges.Items, policies.Items
	c.tryPod(ctx, &facts)
	return facts
}

// tryPod asks what admission makes of a pod like those of Meridian, under the strictest level of Pod Security. A person
// who may not make pods gets no answer; a pod that is refused for another reason is.
func (c *Cluster) tryPod(ctx context.Context, facts *view.Surroundings) {
	yes, no, account := true, false, int64(65532)
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	asked := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: facts.Namespace, Name: "meridian-check"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &account, RunAsGroup: &account, FSGroup: &account,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "database", Image: "localhost/meridian/postgis:17", ImagePullPolicy: corev1.PullIfNotPresent,
				Resources: corev1.ResourceRequirements{
					Requests: size, Limits: corev1.ResourceList{corev1.ResourceMemory: size[corev1.ResourceMemory]},
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	facts.Asked, facts.Answered = asked.DeepCopy(), asked.DeepCopy()
	err := c.Create(ctx, facts.Answered, client.DryRunAll)
	switch {
	case err == nil:
	case apierrors.IsForbidden(err) && !c.mayMakePods(ctx, facts.Namespace):
		facts.Unread[view.CheckTaken] = err.Error()
	default:
		facts.Refusal = err.Error()
	}
}

// mayMakePods tells a person without the right from one whose pod admission refuses: both are Forbidden.
func (c *Cluster) mayMakePods(ctx context.Context, namespace string) bool {
	asked := c.Plain.AuthorizationV1().SelfSubjectAccessReviews()
	review, err := asked.Create(ctx, podReview(namespace), metav1.CreateOptions{})
	return err == nil && review.Status.Allowed
}

func podReview(namespace string) *authorizationv1.SelfSubjectAccessReview {
	return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods"},
	}}
}
