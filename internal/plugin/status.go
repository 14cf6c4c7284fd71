package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
)

func (p *plugin) statusCommand() *cobra.Command {
	var watch, everywhere bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show a database on one screen: instances, lease, caches, the last change, what is waited for",
		Long: "Show a database on one screen: instances with role, node, lag and volume, who holds the lease, the caches,\n" +
			"the last change, what is waited for and why. Without a name, and if there are several, a line for each.\n\n" +
			"Lag and volumes are figures of the agents, read through the API server (right: get pods/proxy).",
		Example: "  kubectl meridian status cities\n  kubectl meridian status cities --watch\n" +
			"  kubectl meridian status -A -o json",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, namespace, err := p.connect()
			if err != nil {
				return err
			}
			if everywhere {
				namespace = ""
			}
			show := func(ctx context.Context, out io.Writer) error { return p.showStatus(ctx, out, in, namespace, args) }
			if !watch {
				return show(cmd.Context(), p.Out)
			}
			return p.repeat(cmd.Context(), interval, show)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until interrupted")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "the databases of all namespaces")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "how often to look while watching")
	return p.printable(cmd)
}

// showStatus shows the one database that is meant, or a list if there are several.
func (p *plugin) showStatus(
	ctx context.Context, out io.Writer, in *cluster.Cluster, namespace string, args []string,
) error {
	keys := []client.ObjectKey{{Namespace: namespace, Name: strings.TrimPrefix(strings.Join(args, ""), "gdb/")}}
	listed := len(args) == 0
	if listed {
		found, err := in.Names(ctx, namespace)
		if err != nil {
			return err
		}
		keys = found
	}
	var overviews []view.Overview
	now := time.Time{}
	for _, key := range keys {
		facts, err := in.Facts(ctx, key)
		if listed && apierrors.IsNotFound(err) { // It was deleted since.
			continue
		}
		if err != nil {
			return err
		}
		now = facts.Now
		overviews = append(overviews, view.Of(facts))
	}
	if len(overviews) == 0 {
		fmt.Fprintln(p.Err, "There is no GeoDatabase here. Make one: kubectl apply -f deploy/samples/minimal.yaml")
		return nil
	}
	to := *p
	to.Out = out
	if len(overviews) == 1 {
		return to.print(overviews[0], func(out io.Writer) { view.Status(out, p.style(), now, overviews[0]) })
	}
	return to.print(overviews, func(out io.Writer) { view.List(out, p.style(), overviews) })
}

// repeat paints over the last screen on a terminal, and elsewhere prints what differs from before.
func (p *plugin) repeat(ctx context.Context, every time.Duration, show func(context.Context, io.Writer) error) error {
	last := ""
	for ctx.Err() == nil {
		text := look(ctx, show)
		switch {
		case ctx.Err() != nil: // The look was interrupted.
		case p.Terminal:
			fmt.Fprint(p.Out, "\x1b[H\x1b[2J"+text)
		case text != last:
			fmt.Fprintln(p.Out, text)
		}
		last = text
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
	return nil
}

// look is one screen. A look that fails is shown too: whoever watches an outage wants to go on watching.
func look(ctx context.Context, show func(context.Context, io.Writer) error) string {
	var text bytes.Buffer
	if err := show(ctx, &text); err != nil {
		fmt.Fprintf(&text, "%v\n", err)
	}
	return text.String()
}
