package operator

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"meridian.dev/meridian/kit/rbac"
)

// OwnImage is the image of Meridian in the manifests, and of an operator that does not run in a pod.
const OwnImage = "localhost/meridian/meridian:dev"

// container is the name of the operator's own container.
const container = "operator"

// imageRights is what it takes to start agents from the image that the operator itself was started from.
func imageRights() rbac.Table {
	return rbac.Table{{
		Scope: rbac.Home, Resource: "pods", Verbs: []string{"get"},
		Why: "know the own image: agents are copied from it", UsedBy: "the start of the operator",
	}}
}

// ownImage is the image that the pod of this process was made with, so that whoever takes the images from a registry of
// their own says so in one place. What the spec of the pod says counts, after admission has changed it.
func ownImage(ctx context.Context, config *rest.Config, namespace, pod string) (string, error) {
	if pod == "" {
		return OwnImage, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	found, err := client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return OwnImage, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the own pod, whose image agents are copied from (--agent-image says another): %w", err)
	}
	for _, one := range found.Spec.Containers {
		if one.Name == container {
			return one.Image, nil
		}
	}
	return OwnImage, nil
}
