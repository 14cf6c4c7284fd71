package lives

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/lives/trust"
)

// readSecrets gives an agent the certificates and credentials that there are when its pod starts, and again when the
// pod is told. The primary sets the password of the next login at once, and replicas have it as soon as it has.
func readSecrets(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		told := pod.Annotations[database.AnnotationSecrets]
		if pod.Labels[database.LabelDatabase] != Cities.Name || !kube.Ready(pod) || pod.DeletionTimestamp != nil ||
			pod.Annotations[mounted] != "" && pod.Annotations[toldOf] == told {
			continue
		}
		var leaf, binding corev1.Secret
		if found, err := kube.Get(v, v, trust.Mounted(pod), &leaf); err != nil || !found {
			return false, err
		}
		if found, err := kube.Get(v, v, database.AppSecretName(Cities.Name), &binding); err != nil || !found {
			return false, err
		}
		number := string(binding.Data[wire.KeyRotation])
		if next, found := render.NextLogin(&binding); found {
			number = strconv.FormatInt(next.Number, 10)
		}
		pod.Annotations[mounted], pod.Annotations[rotated], pod.Annotations[toldOf] = leaf.ResourceVersion, number, told
		return true, v.Update(v, pod)
	}
	return false, nil
}

// certificateOf is what the server of a pod presents, in the words of a report.
func certificateOf(ctx context.Context, cluster client.Reader, pod *corev1.Pod) (string, error) {
	var leaf corev1.Secret
	if found, err := kube.Get(ctx, cluster, trust.Mounted(pod), &leaf); err != nil || !found {
		return "", err
	}
	if pod.Annotations[mounted] != leaf.ResourceVersion {
		return "one of before", nil
	}
	return wire.CertificateIdentity(
		leaf.Data[wire.KeyCertificate], leaf.Data[wire.KeyPrivateKey], leaf.Data[wire.KeyAuthority]), nil
}

// nextOf is the number of the credentials that are made ready, 0 if none are.
func nextOf(ctx context.Context, cluster client.Reader) (int64, error) {
	var binding corev1.Secret
	if _, err := kube.Get(ctx, cluster, database.AppSecretName(Cities.Name), &binding); err != nil {
		return 0, err
	}
	next, _ := render.NextLogin(&binding)
	return next.Number, nil
}

// keepsSecrets lets a password change to the one that was made ready, and one be made ready for a token that is new.
// The authority may be replaced by one that the old one is still trusted beside: what is checked is that something that
// was trusted stays.
func keepsSecrets(state search.State, event sim.Event) error {
	if event.Type != watch.Modified {
		return nil
	}
	var was, is corev1.Secret
	ctx := context.Background()
	if err := state.At(event.Version-1).Get(ctx, event.Key, &was); err != nil {
		return err
	}
	if err := state.Get(ctx, event.Key, &is); err != nil {
		return err
	}
	before, after := string(was.Data[wire.KeyPassword]), string(is.Data[wire.KeyPassword])
	ready, next := string(was.Data[wire.KeyNextPassword]), string(is.Data[wire.KeyNextPassword])
	switch {
	case before != after && after != ready:
		return errors.New("the password has changed to one that was not made ready")
	case next != "" && next != ready && ready != "":
		return errors.New("another password was made ready, and the one before was never used")
	case next != "" && next != ready && render.RotationOf(&was).Token == render.RotationOf(&is).Token:
		return errors.New("a password was made ready, and nobody has asked for it")
	}
	if event.Key.Name == database.AppSecretName(Cities.Name) {
		for _, key := range []string{"type", "provider", "host", "port", "dbname", "database"} {
			if string(was.Data[key]) != string(is.Data[key]) {
				return fmt.Errorf("%s was never to be changed", key)
			}
		}
		if before == after && string(was.Data[wire.KeyURI]) != string(is.Data[wire.KeyURI]) {
			return errors.New("the address has changed without the password")
		}
	}
	for _, key := range []string{wire.KeyAuthority, database.AuthoritiesKey} {
		if before := string(was.Data[key]); before != "" && !shares(before, string(is.Data[key])) {
			return fmt.Errorf("none of the authorities in %s is trusted any more", key)
		}
	}
	return nil
}

// shares says that two lists of certificates have one in common.
func shares(before, after string) bool {
	const end = "-----END CERTIFICATE-----"
	for one := range strings.SplitSeq(before, end) {
		if _, body, found := strings.Cut(one, "BEGIN CERTIFICATE"); found && strings.Contains(after, body) {
			return true
		}
	}
	return false
}

// publishesKnownLogins looks at the agents themselves, and not at what the operator believes about them.
func publishesKnownLogins(state search.State, event sim.Event) error {
	if event.Type != watch.Modified || event.Key.Name != database.AppSecretName(Cities.Name) {
		return nil
	}
	var was, is corev1.Secret
	ctx := context.Background()
	if err := state.At(event.Version-1).Get(ctx, event.Key, &was); err != nil {
		return err
	}
	if err := state.Get(ctx, event.Key, &is); err != nil {
		return err
	}
	if string(was.Data[wire.KeyUsername]) == string(is.Data[wire.KeyUsername]) {
		return nil
	}
	scene, err := sceneOf(state)
	if err != nil {
		return err
	}
	known := false
	for i := range scene.view.Pods.Items {
		pod := &scene.view.Pods.Items[i]
		// One that has become ready since the decision has started with what was stored then, or later.
		knows := pod.Annotations[rotated] == string(is.Data[wire.KeyRotation])
		if pod.Annotations[mounted] != "" && kube.Ready(pod) && pod.DeletionTimestamp == nil && !knows {
			return fmt.Errorf("%s does not know the login %s", pod.Name, is.Data[wire.KeyUsername])
		}
		known = known || knows
	}
	if !known {
		return errors.New("no instance knows it")
	}
	return nil
}

// presentsWhatIsTrusted verifies the certificates of all instances by what applications were told.
func presentsWhatIsTrusted(state search.State, event sim.Event) error {
	if event.Kind != secretKind {
		return nil
	}
	return trust.Check(context.Background(), state, Cities)
}

func rotatePassword(token string) search.Step {
	return search.Step{Name: "another password: " + token, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Rotate = &v1alpha1.Rotate{Password: token}
	})}
}

func rotateCertificates(token string) search.Step {
	return search.Step{Name: "other certificates: " + token, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Rotate = &v1alpha1.Rotate{Certificates: token}
	})}
}

// rotations need no restart.
func rotations() []Life {
	hours := search.Step{Name: "two hours pass", Wait: 2 * time.Hour}
	return []Life{
		{Name: "another password", From: three, Script: []search.Step{rotatePassword("a")},
			End: all(served(upTo(3)...), logsInAs(wire.OtherLogin, "a"))},
		{Name: "another password and back again", Timed: true, From: one, End: all(served(upTo(1)...), logsInAs("app", "b")),
			Script: []search.Step{rotatePassword("a"), hours, rotatePassword("b"), hours}},
		{Name: "another password, and the primary goes", From: three, Moves: 1,
			End:    all(served(upTo(3)...), logsInAs(wire.OtherLogin, "a")),
			Script: []search.Step{rotatePassword("a"), switchTo("cities-2")}},
		{Name: "other certificates", Timed: true, From: three, End: all(served(upTo(3)...), hasOtherAuthority("a")),
			Script: []search.Step{rotateCertificates("a"), hours, hours, hours, hours}},
	}
}

// logsInAs says which login applications are told of, by which token, and that it works everywhere.
func logsInAs(login, token string) func(search.State) error {
	return func(state search.State) error {
		var binding corev1.Secret
		if _, err := kube.Get(context.Background(), state, database.AppSecretName(Cities.Name), &binding); err != nil {
			return err
		}
		rotation := render.RotationOf(&binding)
		name := string(binding.Data[wire.KeyUsername])
		if name != login || rotation.Token != token || rotation.UnderWay() {
			return fmt.Errorf("applications log in as %s, and the rotation is %+v", name, rotation)
		}
		return everyPod(state, rotated, string(binding.Data[wire.KeyRotation]))
	}
}

// hasOtherAuthority says that all that is trusted was made by the rotation with this token, and is presented.
func hasOtherAuthority(token string) func(search.State) error {
	return func(state search.State) error {
		ctx := context.Background()
		var authority corev1.Secret
		if _, err := kube.Get(ctx, state, database.AuthorityName(Cities.Name), &authority); err != nil {
			return err
		}
		material, err := render.Material(&authority, nil)
		if err != nil {
			return err
		}
		rotation := render.RotationOf(&authority)
		if rotation.Token != token || rotation.UnderWay() || len(material.Authorities) != 1 ||
			material.Older(rotation.Began) {
			return fmt.Errorf("there are %d authorities, and the rotation is %+v", len(material.Authorities), rotation)
		}
		return everyPodPresents(state)
	}
}

// everyPodPresents says that every pod has the certificate that is stored for it.
func everyPodPresents(state client.Reader) error {
	scene, err := sceneOf(state)
	if err != nil {
		return err
	}
	for i := range scene.view.Pods.Items {
		pod := &scene.view.Pods.Items[i]
		var leaf corev1.Secret
		if _, err := kube.Get(context.Background(), state, trust.Mounted(pod), &leaf); err != nil {
			return err
		}
		if pod.Annotations[mounted] != leaf.ResourceVersion {
			return fmt.Errorf("%s has the certificate %q, want %s", pod.Name, pod.Annotations[mounted], leaf.ResourceVersion)
		}
	}
	return nil
}

// everyPod says that every pod has an annotation.
func everyPod(state client.Reader, name, value string) error {
	scene, err := sceneOf(state)
	if err != nil {
		return err
	}
	for _, pod := range scene.view.Pods.Items {
		if pod.Annotations[name] != value {
			return fmt.Errorf("%s has %s, want %s", pod.Name, strconv.Quote(pod.Annotations[name]), value)
		}
	}
	return nil
}

// forgetsNextLogin never sees that a login is made ready.
func forgetsNextLogin(p *parts) {
	sees(func(secret *corev1.Secret) {
		delete(secret.Data, wire.KeyNextPassword)
		if render.RotationOf(secret).UnderWay() {
			delete(secret.Annotations, database.AnnotationRotation)
		}
	})(p)
}

// forgetsApplications takes it for granted that applications know what servers trust.
func forgetsApplications(p *parts) {
	cluster := p.agents.cluster
	sees(func(secret *corev1.Secret) {
		var leaf corev1.Secret
		if secret.Name != database.AppSecretName(Cities.Name) {
			return
		}
		name := database.CertificateName(Cities.Name, 1)
		if found, err := kube.Get(context.Background(), cluster, name, &leaf); found && err == nil {
			secret.Data[wire.KeyAuthority] = leaf.Data[wire.KeyAuthority]
		}
	})(p)
}
