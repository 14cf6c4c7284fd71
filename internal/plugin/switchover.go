package plugin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
)

// anyInstance leaves the choice to the agents.
const anyInstance = "any"

func (p *plugin) switchoverCommand() *cobra.Command {
	var target string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "switchover NAME",
		Short: "Ask for another primary, and wait until it accepts writes",
		Long: "Ask for another primary, and wait until it accepts writes. No acknowledged write is lost; writes wait for\n" +
			"about two seconds. The request is an annotation of the GeoDatabase (right: patch geodatabases); the operator\n" +
			"takes it away when it is carried out or refused.",
		Example: "  kubectl meridian switchover cities\n  kubectl meridian switchover cities --to cities-2",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: p.complete,
		RunE: p.forNamed(func(ctx context.Context, in *cluster.Cluster, key client.ObjectKey) error {
			return p.switchOver(ctx, in, key, wish{target: target, limit: limit})
		}),
	}
	cmd.Flags().StringVar(&target, "to", anyInstance, "the instance that shall be the primary")
	cmd.Flags().DurationVar(&limit, "timeout", 90*time.Second, "how long to wait; 0: do not")
	return p.printable(cmd)
}

// switched is how a switchover has ended, for programs.
type switched struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// From was the primary, To is it now; both are the same if there was nothing to do, and To is empty if nobody waited.
	From string `json:"from"`
	To   string `json:"to,omitempty"`
	Term int64  `json:"term"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// wish is a switchover that somebody asks for.
type wish struct {
	target string
	limit  time.Duration
}

func (p *plugin) switchOver(ctx context.Context, in *cluster.Cluster, key client.ObjectKey, wanted wish) error {
	var database v1alpha1.GeoDatabase
	if err := in.Get(ctx, key, &database); err != nil {
		return fmt.Errorf("read the database %s: %w", key, err)
	}
	before := database.Status
	switch {
	case wanted.target == before.Primary:
		done := switched{key.Namespace, key.Name, before.Primary, before.Primary, before.Term, 0}
		return p.print(done, func(out io.Writer) { fmt.Fprintf(out, "%s is the primary already.\n", wanted.target) })
	case database.Annotations[view.AnnotationSwitchover] != "":
		return fmt.Errorf("a switchover to %s is under way already", database.Annotations[view.AnnotationSwitchover])
	case wanted.target != anyInstance && !isMember(before, wanted.target):
		return fmt.Errorf("there is no instance %s: there are %s", wanted.target, strings.Join(names(before), ", "))
	}
	asked := database.DeepCopy()
	if asked.Annotations == nil {
		asked.Annotations = map[string]string{}
	}
	asked.Annotations[view.AnnotationSwitchover] = wanted.target
	start := in.Now()
	if err := ask(ctx, in, &database, asked); err != nil {
		return fmt.Errorf("ask for another primary: %w", err)
	}
	words := fmt.Sprintf("Asked for another primary of %s: %s. Now it is %s.\n", key.Name, wanted.target,
		primaryOf(before))
	if wanted.limit == 0 {
		done := switched{key.Namespace, key.Name, before.Primary, "", before.Term, 0}
		return p.print(done, func(out io.Writer) { fmt.Fprint(out, words) })
	}
	if p.output == "" {
		fmt.Fprint(p.Out, words)
	}
	return p.awaitSwitchover(ctx, in, &database, start, wanted.limit)
}

// awaitSwitchover waits until the operator has taken the request away and the status shows who leads.
func (p *plugin) awaitSwitchover(
	ctx context.Context, in *cluster.Cluster, before *v1alpha1.GeoDatabase, start time.Time, limit time.Duration,
) error {
	key := client.ObjectKeyFromObject(before)
	var since time.Time // Since when the request is gone.
	return await(ctx, 200*time.Millisecond, "the request stands", func() (bool, error) {
		var now v1alpha1.GeoDatabase
		err := in.Get(ctx, key, &now)
		ended := err == nil && now.Annotations[view.AnnotationSwitchover] == ""
		if ended && since.IsZero() {
			since = in.Now()
		}
		switch {
		case ended && now.Status.Term > before.Status.Term && now.Status.Primary != "":
			took := in.Now().Sub(start).Round(100 * time.Millisecond)
			done := switched{
				key.Namespace, key.Name, before.Status.Primary, now.Status.Primary, now.Status.Term, took.Seconds(),
			}
			return true, p.print(done, func(out io.Writer) {
				fmt.Fprintf(out, "%s is the primary, at term %d, after %s.\n", done.To, done.Term, took)
			})
		case ended && now.Status.Term == before.Status.Term:
			// The status follows the end of the request, and a busy operator takes its time.
			why := p.refusal(ctx, in, key, start)
			if why == "" && in.Now().Sub(since) > statusPatience {
				why = "the operator does not say why; see: kubectl meridian events " + key.Name
			}
			if why != "" {
				return false, fmt.Errorf("it was refused: %s", why)
			}
		case in.Now().Sub(start) > limit:
			return false, fmt.Errorf("not done after %s; see: kubectl meridian explain %s", limit, key.Name)
		}
		return false, nil
	})
}

// statusPatience is how long the status may take to show a switchover whose request is gone.
const statusPatience = 15 * time.Second

// refusal finds why, in the events; empty if they do not say.
func (p *plugin) refusal(ctx context.Context, in *cluster.Cluster, key client.ObjectKey, since time.Time) string {
	facts, err := in.Facts(ctx, key)
	if err != nil {
		return err.Error()
	}
	for _, change := range view.Changes(facts, key.Name) {
		if change.Reason == "SwitchoverRefused" && change.At.After(since.Add(-5*time.Second)) {
			return change.Note
		}
	}
	return ""
}

func isMember(status v1alpha1.GeoDatabaseStatus, name string) bool {
	for _, member := range names(status) {
		if member == name {
			return true
		}
	}
	return false
}

func names(status v1alpha1.GeoDatabaseStatus) []string {
	var found []string
	for _, member := range status.Members {
		found = append(found, member.Name)
	}
	return found
}

func primaryOf(status v1alpha1.GeoDatabaseStatus) string {
	if status.Primary == "" {
		return "nobody"
	}
	return status.Primary
}
