package trial

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim/search"
)

// change changes the backups of the database over whatever they are now.
func (s Stage) change(name string, how func(*v1alpha1.GeoDatabaseSpec)) search.Step {
	return search.Step{Name: name, Do: func(ctx context.Context, cluster client.Client) error {
		var object v1alpha1.GeoDatabase
		if err := cluster.Get(ctx, s.Database, &object); err != nil {
			return client.IgnoreNotFound(err) // The user comes too early, or too late.
		}
		how(&object.Spec)
		return cluster.Update(ctx, &object)
	}}
}

// Keep makes credentials with these annotations, and turns backups on.
func (s Stage) Keep(annotations map[string]string) []search.Step {
	secret := search.Step{Name: "there are credentials", Do: func(ctx context.Context, cluster client.Client) error {
		return cluster.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Database.Namespace, Name: "s3", Annotations: annotations},
			Data:       map[string][]byte{v1alpha1.KeyAccessKeyID: []byte("a"), v1alpha1.KeySecretAccessKey: []byte("b")},
		})
	}}
	return []search.Step{secret, s.change("there shall be backups", func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.Backup = &v1alpha1.Backup{Repository: v1alpha1.Repository{
			S3:         &v1alpha1.S3Repository{Bucket: "backups", Credentials: v1alpha1.SecretReference{Name: "s3"}},
			Encryption: v1alpha1.Encryption{Mode: v1alpha1.EncryptionNone},
		}}
	})}
}

// Now asks for one.
func (s Stage) Now(token string) search.Step {
	return s.change("a restore on trial, please: "+token, func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.Backup.VerifyNow = token
	})
}

// Never takes all wishes back.
func (s Stage) Never() search.Step {
	return s.change("no restores on trial", func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.Backup.Verify, spec.Backup.VerifyNow = v1alpha1.VerifyNever, ""
	})
}

// End says how restores on trial end from now on.
func (s Stage) End(how string) search.Step {
	return search.Step{Name: "restores on trial: " + how, Do: func(ctx context.Context, cluster client.Client) error {
		told := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Ends.Namespace, Name: s.Ends.Name}, Data: map[string]string{"how": how},
		}
		if err := cluster.Delete(ctx, told.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return err
		}
		return cluster.Create(ctx, told)
	}}
}

// LosePod has somebody delete the pod.
func (s Stage) LosePod() search.Step {
	return search.Step{Name: "somebody deletes its pod", Do: func(ctx context.Context, cluster client.Client) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Database.Namespace, Name: database.TrialName(s.Database.Name),
		}}
		return client.IgnoreNotFound(cluster.Delete(ctx, pod))
	}}
}
