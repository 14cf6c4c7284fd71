package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/cluster"
)

func (p *plugin) backupsVerifyCommand() *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "verify NAME",
		Short: "Restore the latest backup on trial, and wait until it is looked through",
		Long: "Restore the latest backup on trial, and wait until it is looked through. The operator makes a pod of its\n" +
			"own for it, with a volume as large as the database, and takes both away again; the database is not touched.\n" +
			"The request is spec.backup.verifyNow (right: patch geodatabases), which gets the present time.",
		Example: "  kubectl meridian backups verify cities\n  kubectl meridian backups verify cities --timeout 0",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: p.complete,
		RunE: p.forNamed(func(ctx context.Context, in *cluster.Cluster, key client.ObjectKey) error {
			return p.verify(ctx, in, key, limit)
		}),
	}
	cmd.Flags().DurationVar(&limit, "timeout", 2*time.Hour, "how long to wait; 0: do not")
	return p.printable(cmd)
}

// verified is how a restore on trial has ended, for programs.
type verified struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// VerifyNow is the value of spec.backup.verifyNow, Paused says that it waits until spec.paused is false.
	VerifyNow string `json:"verifyNow"`
	Paused    bool   `json:"paused,omitempty"`
	// Good says that nothing was found, Problem what was, or why it could not be made; neither if nobody waited.
	Good    bool   `json:"good,omitempty"`
	Problem string `json:"problem,omitempty"`
	// RestoreSeconds is how long the restore took, the measured time to recover; Seconds how long all of it took.
	RestoreSeconds float64 `json:"restoreSeconds,omitempty"`
	Seconds        float64 `json:"seconds,omitempty"`
}

func (p *plugin) verify(ctx context.Context, in *cluster.Cluster, key client.ObjectKey, limit time.Duration) error {
	var database v1alpha1.GeoDatabase
	if err := in.Get(ctx, key, &database); err != nil {
		return fmt.Errorf("read the database %s: %w", key, err)
	}
	switch {
	case database.Spec.Backup == nil:
		return fmt.Errorf("%s has no spec.backup", key.Name)
	case database.Spec.Hibernated:
		return fmt.Errorf("%s sleeps: nothing is restored on trial before spec.hibernated is false", key.Name)
	}
	start := in.Now()
	asked := database.DeepCopy()
	asked.Spec.Backup.VerifyNow = start.UTC().Format(time.RFC3339)
	done := verified{
		Namespace: key.Namespace, Name: key.Name, VerifyNow: asked.Spec.Backup.VerifyNow, Paused: database.Spec.Paused,
	}
	if err := ask(ctx, in, &database, asked); err != nil {
		return fmt.Errorf("ask for a restore on trial: %w", err)
	}
	if asked.Spec.Backup.VerifyNow != done.VerifyNow {
		return errors.New("this cluster does not know spec.backup.verifyNow: its definitions are older than this plugin")
	}
	words := fmt.Sprintf("Asked for a restore on trial of the latest backup of %s.\n", key.Name)
	if done.Paused {
		words += "spec.paused is true: it waits until that is false.\n"
	}
	if limit == 0 || done.Paused {
		return p.print(done, func(out io.Writer) { fmt.Fprint(out, words) })
	}
	if p.output == "" {
		fmt.Fprint(p.Out, words)
	}
	return p.awaitVerified(ctx, in, key, done, start.Add(limit))
}

// awaitVerified waits until the operator says that the request was carried out, and prints each step on the way once.
func (p *plugin) awaitVerified(
	ctx context.Context, in *cluster.Cluster, key client.ObjectKey, done verified, until time.Time,
) error {
	start, shown := in.Now(), ""
	return await(ctx, 500*time.Millisecond, "the request stands", func() (bool, error) {
		var now v1alpha1.GeoDatabase
		err := in.Get(ctx, key, &now)
		told := now.Status.Backup
		switch {
		case err == nil && told != nil && told.VerifyNow == done.VerifyNow:
			return true, p.tellVerified(in, done, *told, start)
		case err == nil && (now.Spec.Backup == nil || now.Spec.Backup.VerifyNow != done.VerifyNow):
			return false, errors.New("somebody has asked for another one at the same moment; that one counts")
		case err == nil && told != nil && told.Verifying != "" && told.Verifying != shown && p.output == "":
			shown = told.Verifying
			fmt.Fprintln(p.Out, shown)
		case in.Now().After(until):
			return false, fmt.Errorf("not done yet; the request stands, see: kubectl meridian explain %s", key.Name)
		}
		return false, nil
	})
}

func (p *plugin) tellVerified(
	in *cluster.Cluster, done verified, told v1alpha1.BackupStatus, start time.Time,
) error {
	took := in.Now().Sub(start).Round(100 * time.Millisecond)
	done.Seconds, done.Good, done.Problem = took.Seconds(), told.VerifyProblem == "", told.VerifyProblem
	if done.Good && told.RestoreDuration != nil {
		done.RestoreSeconds = told.RestoreDuration.Seconds()
	}
	err := p.print(done, func(out io.Writer) {
		if done.Good {
			fmt.Fprintf(out, "The latest backup is good. It was restored within %s; with the looking through it took %s.\n",
				time.Duration(done.RestoreSeconds*float64(time.Second)), took)
		}
	})
	if err == nil && !done.Good {
		return fmt.Errorf("the restore on trial was not good: %s", done.Problem)
	}
	return err
}
