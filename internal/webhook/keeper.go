package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/pki"
)

// The keys of the Secret.
const (
	authoritiesKey = "authorities"
	bundleKey      = "ca.crt"

	leafName = "webhook"
)

// keeper keeps the certificates of one replica current. Its client reads live: a cache would show the past.
type keeper struct {
	client client.Client
	home   string
	policy pki.Policy
	now    func() time.Time
	random io.Reader

	presented atomic.Pointer[pki.Material]
}

// pass takes at most one step of a rotation, and returns when the next pass is due.
//
// The order of its reads and writes is what makes several replicas safe:
//
//  1. The configuration is read before the Secret. So whoever changes it by what the Secret says, on the condition that
//     it is still the one that was read, cannot bring back an older bundle: a newer one would have changed it.
//  2. What is stored is published before the next step is decided on. So a step that waits for a bundle to settle does
//     not count time in which nobody could see it.
//  3. A certificate is presented only after the configuration has its authority.
//
// Any write that is refused ends the pass. The next one begins with reading.
func (k *keeper) pass(ctx context.Context) (again time.Time, err error) {
	configuration, err := k.readConfiguration(ctx)
	if err != nil {
		return time.Time{}, err
	}
	secret, state, err := k.readSecret(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if len(state.Authorities) > 0 && !publishes(configuration, state.Bundle()) {
		if err := k.publish(ctx, configuration, state.Bundle()); err != nil {
			return time.Time{}, err
		}
		return k.now(), k.present(state)
	}
	plan := pki.Decide(state, k.now(), k.policy)
	if len(plan.Steps) == 0 {
		return plan.Again, k.present(state)
	}
	state, err = plan.Apply(state, k.random)
	if err != nil {
		return time.Time{}, fmt.Errorf("make certificates: %w", err)
	}
	if err := k.store(ctx, secret, state); err != nil {
		return time.Time{}, err
	}
	if err := k.publish(ctx, configuration, state.Bundle()); err != nil {
		return time.Time{}, err
	}
	return k.now(), k.present(state)
}

// readConfiguration returns nil if there is none: then nobody asks the webhook.
func (k *keeper) readConfiguration(ctx context.Context) (
	*admissionregistrationv1.ValidatingWebhookConfiguration, error,
) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := k.client.Get(ctx, client.ObjectKey{Name: ConfigurationName(k.home)}, configuration)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, fmt.Errorf("read the webhook configuration: %w", err)
	}
	return configuration, nil
}

// readSecret returns an empty state if there is no Secret yet. A leaf that cannot be read is made anew; authorities
// that cannot be read are a matter for people, because making them anew interrupts everyone.
func (k *keeper) readSecret(ctx context.Context) (*corev1.Secret, pki.State, error) {
	secret := &corev1.Secret{}
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.home, Name: Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, pki.State{}, nil
	}
	if err != nil {
		return nil, pki.State{}, fmt.Errorf("read the certificates of the webhook: %w", err)
	}
	var state pki.State
	state.Authorities, err = pki.DecodeAuthorities(secret.Data[authoritiesKey])
	if err != nil {
		return nil, pki.State{},
			fmt.Errorf("decode the authorities in Secret %s/%s: %w; delete it, and they are made anew",
				k.home, Name, err)
	}
	leaf, err := pki.DecodeLeaf(leafName, secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err == nil {
		state.Leaves = []pki.Leaf{leaf}
	}
	return secret, state, nil
}

// store writes the state, on the condition that the Secret is the one that was read. Authorities and leaf are one
// write, so that an authority is never without the knowledge of a leaf that it has signed.
func (k *keeper) store(ctx context.Context, read *corev1.Secret, state pki.State) error {
	authorities, err := pki.EncodeAuthorities(state.Authorities)
	if err != nil {
		return fmt.Errorf("encode authorities: %w", err)
	}
	data := map[string][]byte{authoritiesKey: authorities, bundleKey: state.Bundle()}
	if leaf, found := state.Leaf(leafName); found {
		if data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], err = leaf.Encode(); err != nil {
			return fmt.Errorf("encode the certificate of the webhook: %w", err)
		}
	}
	if read == nil {
		created := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.home, Name: Name}, Type: corev1.SecretTypeTLS, Data: data,
		}
		if err := k.client.Create(ctx, created); err != nil {
			return fmt.Errorf("create the certificates of the webhook: %w", err)
		}
		return nil
	}
	changed := read.DeepCopy()
	changed.Data = data
	if err := k.client.Update(ctx, changed); err != nil {
		return fmt.Errorf("update the certificates of the webhook: %w", err)
	}
	return nil
}

// ours tells our entries from those that somebody may have added to the configuration.
func ours(webhook admissionregistrationv1.ValidatingWebhook) bool {
	return strings.HasSuffix(webhook.Name, "."+v1alpha1.GroupVersion.Group)
}

// publishes tells whether the configuration has exactly this bundle, or needs none.
func publishes(configuration *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) bool {
	if configuration == nil {
		return true
	}
	for _, webhook := range configuration.Webhooks {
		if ours(webhook) && !bytes.Equal(webhook.ClientConfig.CABundle, bundle) {
			return false
		}
	}
	return true
}

// publish writes the bundle into the configuration, on the condition that it is the one that was read.
func (k *keeper) publish(
	ctx context.Context, configuration *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte,
) error {
	if publishes(configuration, bundle) {
		return nil
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	operations := []operation{
		{"test", "/metadata/uid", configuration.UID},
		{"test", "/metadata/resourceVersion", configuration.ResourceVersion},
	}
	for i, webhook := range configuration.Webhooks {
		if ours(webhook) {
			operations = append(operations,
				operation{"add", "/webhooks/" + strconv.Itoa(i) + "/clientConfig/caBundle", bundle})
		}
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	err = k.client.Patch(ctx, configuration.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
	if err != nil {
		return fmt.Errorf("publish the authorities of the webhook: %w", err)
	}
	return nil
}

func (k *keeper) present(state pki.State) error {
	material, err := state.Material(leafName)
	if err != nil {
		return fmt.Errorf("load the certificate of the webhook: %w", err)
	}
	k.presented.Store(&material)
	return nil
}

var errNoCertificate = errors.New("the webhook has no certificate yet")

// material is what handshakes use.
func (k *keeper) material() (pki.Material, error) {
	material := k.presented.Load()
	if material == nil {
		return pki.Material{}, errNoCertificate
	}
	return *material, nil
}
