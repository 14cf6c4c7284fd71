package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/kit/condition"
)

// copied is a restore that somebody asks for.
type copied struct {
	to, as       string
	instances    int32
	dryRun, wait bool
	limit        time.Duration
}

func (p *plugin) restoreCommand() *cobra.Command {
	var wanted copied
	cmd := &cobra.Command{
		Use:   "restore NAME --as NEW [--to WHEN]",
		Short: "Make a second database with what the first one was at a moment",
		Long: "Make a second database with what the first one was at a moment. The first one is not touched. The second\n" +
			"one has the same spec, with spec.bootstrap.restore, and backups of its own in the same repository (right:\n" +
			"create geodatabases). WHEN is such as \"10 minutes ago\", 2026-11-18T10:15:00Z, \"2026-11-18 10:15:00\" in the\n" +
			"time zone of your machine, a place in the log such as 0/3000148, or latest.",
		Example: "  kubectl meridian restore cities --to \"10 minutes ago\" --as cities-before\n" +
			"  kubectl meridian restore cities --as cities-copy --dry-run > copy.yaml",
		Args: cobra.ExactArgs(1), ValidArgsFunction: p.complete,
		RunE: p.forNamed(func(ctx context.Context, in *cluster.Cluster, key client.ObjectKey) error {
			return p.restore(ctx, in, key, wanted)
		}),
	}
	cmd.Flags().StringVar(&wanted.to, "to", "latest", "the moment, or the place in the log")
	cmd.Flags().StringVar(&wanted.as, "as", "", "name of the new database (here it is no user to act as)")
	cmd.Flags().Int32Var(&wanted.instances, "instances", 0, "how many instances the new one has; 0: as many as the first")
	cmd.Flags().BoolVar(&wanted.dryRun, "dry-run", false, "print the manifest, and make nothing")
	cmd.Flags().BoolVar(&wanted.wait, "wait", true, "wait until the new one is Ready, and say what it does")
	cmd.Flags().DurationVar(&wanted.limit, "timeout", time.Hour, "how long to wait")
	_ = cmd.MarkFlagRequired("as")
	return cmd
}

func (p *plugin) restore(ctx context.Context, in *cluster.Cluster, key client.ObjectKey, wanted copied) error {
	var source v1alpha1.GeoDatabase
	if err := in.Get(ctx, key, &source); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("there is no database %s; one that was deleted is restored by a manifest with "+
				"spec.bootstrap.restore, which names its repository: see docs/guide/restore.md", key)
		}
		return fmt.Errorf("read the database %s: %w", key, err)
	}
	target, err := targetOf(wanted.to, in.Now())
	switch {
	case err != nil:
		return err
	case source.Spec.Backup == nil:
		return fmt.Errorf("%s has no spec.backup, so there is nothing to restore", key.Name)
	case wanted.as == key.Name:
		return fmt.Errorf("--as: %s is the database itself; a restore makes a second one", wanted.as)
	}
	if err := within(source.Status.Backup, target); err != nil {
		return err
	}
	made := restored(&source, target, wanted)
	if wanted.dryRun {
		return p.manifest(made)
	}
	start := in.Now()
	if err := in.Create(ctx, made); err != nil {
		return fmt.Errorf("make the database %s: %w", wanted.as, err)
	}
	fmt.Fprintf(p.Out, "Made %s, which begins with %s as it was at %s.\n", wanted.as, key.Name, wanted.to)
	if !wanted.wait {
		return nil
	}
	return p.awaitReady(ctx, in, client.ObjectKeyFromObject(made), start, wanted.limit)
}

// within refuses what is known to be out of reach. What is not known is for the new database to find out.
func within(known *v1alpha1.BackupStatus, target *v1alpha1.RestoreTarget) error {
	switch {
	case known == nil || known.RecoverableFrom == nil:
		return errors.New("nothing can be restored yet: there is no base backup (kubectl get gdb shows it as Recoverable)")
	case target == nil || target.Time == nil || !target.Time.Time.Before(known.RecoverableFrom.Time):
		return nil
	}
	for _, gap := range known.Gaps {
		if target.Time.Time.Before(gap.From.Time) {
			return nil // Older windows reach to the first gap, and how far back is for the repository to say.
		}
		if !target.Time.Time.After(gap.Until.Time) {
			return fmt.Errorf("--to: %s is within a gap, from %s to %s; choose a moment before or after it",
				target.Time.UTC().Format(time.RFC3339), gap.From.UTC().Format(time.RFC3339), gap.Until.UTC().Format(time.RFC3339))
		}
	}
	return fmt.Errorf("--to: %s is before %s, the oldest moment that can be restored to",
		target.Time.UTC().Format(time.RFC3339), known.RecoverableFrom.UTC().Format(time.RFC3339))
}

// restored is the second database: the spec of the first, without what was only a wish of the moment.
func restored(source *v1alpha1.GeoDatabase, target *v1alpha1.RestoreTarget, wanted copied) *v1alpha1.GeoDatabase {
	spec := *source.Spec.DeepCopy()
	spec.Bootstrap.Clone = nil
	spec.Bootstrap.Restore = &v1alpha1.Restore{
		Repository: *source.Spec.Backup.Repository.DeepCopy(),
		Source: v1alpha1.RestoreSource{
			Namespace: source.Namespace, Name: source.Name, UID: rootOf(source.Status.Backup),
		},
		Target: target,
	}
	spec.Storage.Adopt, spec.Restart, spec.Rotate, spec.Backup.Now = "", "", nil, ""
	spec.Backup.VerifyNow = ""
	spec.Paused, spec.Hibernated = false, false
	if size := source.Status.VolumeSize; size != nil && size.Cmp(spec.Storage.Size) > 0 {
		spec.Storage.Size = size.DeepCopy()
	}
	if wanted.instances > 0 {
		spec.Instances = wanted.instances
		if spec.Instances < 2 && spec.Durability == v1alpha1.DurabilityStrict {
			spec.Durability = ""
		}
	}
	return &v1alpha1.GeoDatabase{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "GeoDatabase",
		},
		ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: wanted.as},
		Spec:       spec,
	}
}

// rootOf is the UID by which the repository knows the source, empty if that is not told.
func rootOf(known *v1alpha1.BackupStatus) string {
	if known == nil {
		return ""
	}
	parts := strings.Split(strings.Trim(known.Repository, "/"), "/")
	return parts[len(parts)-1]
}

// manifest prints what would be made.
func (p *plugin) manifest(made *v1alpha1.GeoDatabase) error {
	content, err := yaml.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string        `json:"metadata"`
		Spec            v1alpha1.GeoDatabaseSpec `json:"spec"`
	}{made.TypeMeta, map[string]string{"namespace": made.Namespace, "name": made.Name}, made.Spec})
	if err != nil {
		return err
	}
	_, err = p.Out.Write(content)
	return err
}

// awaitReady says what the new database does until it is Ready.
func (p *plugin) awaitReady(
	ctx context.Context, in *cluster.Cluster, key client.ObjectKey, start time.Time, limit time.Duration,
) error {
	said := ""
	return await(ctx, 500*time.Millisecond, "the restore goes on", func() (bool, error) {
		var now v1alpha1.GeoDatabase
		err := in.Get(ctx, key, &now)
		took := in.Now().Sub(start).Round(time.Second)
		stalled := condition.Find(now.Status.Conditions, v1alpha1.ConditionStalled)
		switch {
		case apierrors.IsNotFound(err):
			return false, fmt.Errorf("%s was deleted", key.Name)
		case err == nil && condition.IsTrue(now.Status.Conditions, v1alpha1.ConditionReady):
			return true, p.print(key, func(out io.Writer) {
				fmt.Fprintf(out, "%s is ready after %s. Look at it: kubectl meridian psql %s\n", key.Name, took, key.Name)
			})
		case err == nil && stalled != nil && stalled.Status == metav1.ConditionTrue:
			return false, fmt.Errorf("%s: %s; see: kubectl meridian runbook %s", stalled.Reason, stalled.Message, stalled.Reason)
		case took > limit:
			return false, fmt.Errorf("not ready after %s; see: kubectl meridian explain %s", limit, key.Name)
		case err == nil && now.Status.WaitingFor != said && now.Status.WaitingFor != "":
			said = now.Status.WaitingFor
			fmt.Fprintf(p.Out, "%6s  %s\n", took, said)
		}
		return false, nil
	})
}
