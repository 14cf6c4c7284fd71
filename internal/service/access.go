package service

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secrets reads Secrets by name. Those that are not there are left out.
func Secrets(
	ctx context.Context, live client.Reader, namespace string, names []string,
) (map[string]*corev1.Secret, error) {
	found := map[string]*corev1.Secret{}
	for _, name := range names {
		var secret corev1.Secret
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("get the Secret %s: %w", name, err)
		case err == nil:
			found[name] = &secret
		}
	}
	return found, nil
}
