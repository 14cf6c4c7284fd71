package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/docs"
	"meridian.dev/meridian/internal/plugin/bundle"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/internal/recall"
	"meridian.dev/meridian/internal/redact"
	"meridian.dev/meridian/internal/wire"
)

func (p *plugin) snapshotCommand() *cobra.Command {
	var file string
	var tail int64
	cmd := &cobra.Command{
		Use:   "snapshot [NAME]",
		Short: "Pack everything that helps to understand a database into one file, without any secret",
		Long: "Pack everything that helps to understand a database into one file: objects, events, what the agents say,\n" +
			"and the end of the logs. Secrets are not read; what looks like one elsewhere is redacted. Look into it before\n" +
			"you send it all the same.\n\n" +
			"replay.txtar in it is what the operator saw: `meridian recall FILE` tells what it decides on that, and put into\n" +
			"internal/database/plan/testdata it is a test. scenario.txtar is one for internal/plugin/view/testdata.\n\n" +
			"What you may not read is missing, and named in unread.txt.",
		Example: "  kubectl meridian snapshot cities\n  kubectl meridian snapshot cities --file cities.tar.gz --tail 5000",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, in, err := p.facts(cmd.Context(), args)
			if err != nil {
				return err
			}
			if file == "" {
				file = fmt.Sprintf("%s-%s-%s.tar.gz", facts.Database.Namespace, facts.Database.Name,
					facts.Now.UTC().Format("20060102-150405"))
			}
			out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return fmt.Errorf("write the file: %w", err)
			}
			packer := &packer{
				Cluster: in, facts: facts, tail: tail, writer: bundle.New(out, folderOf(file), facts.Now),
			}
			packed, err := packer.pack(cmd.Context())
			if closed := out.Close(); err == nil {
				err = closed
			}
			if err != nil {
				return err
			}
			written := written{File: file, Files: packed, Unread: strings.Count(packer.problems.String(), "\n")}
			return p.print(written, func(out io.Writer) {
				fmt.Fprintf(out, "%s: %d files\n", file, packed)
				if written.Unread > 0 {
					fmt.Fprintf(out, "%d things could not be read: unread.txt in it names them.\n", written.Unread)
				}
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "name of the file; by default after the database and the time")
	cmd.Flags().Int64Var(&tail, "tail", 1000, "how many of the last lines of each log")
	return p.printable(cmd)
}

// written is what was packed, for programs.
type written struct {
	File  string `json:"file"`
	Files int    `json:"files"`
	// Unread counts what could not be read.
	Unread int `json:"unread"`
}

func folderOf(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".tar")
}

// packer fills one bundle.
type packer struct {
	*cluster.Cluster
	facts  view.Facts
	writer *bundle.Writer
	tail   int64
	// problems is what could not be read.
	problems bytes.Buffer
}

// pack returns the number of files.
func (p *packer) pack(ctx context.Context) (int, error) {
	for _, unread := range p.facts.Unread {
		fmt.Fprintln(&p.problems, unread)
	}
	for _, add := range []func(context.Context) error{p.addViews, p.addStory, p.addObjects, p.addPods} {
		if err := add(ctx); err != nil {
			return 0, err
		}
	}
	if err := p.writer.Text("unread.txt", p.problems.String()); err != nil {
		return 0, err
	}
	return len(p.writer.Names()), p.writer.Close()
}

// addViews adds what the other verbs show, and the facts behind it as a scenario.
func (p *packer) addViews(context.Context) error {
	facts, style := p.facts, view.Style{}
	var status, check, explain, events bytes.Buffer
	view.Status(&status, style, facts.Now, view.Of(facts))
	view.Check(&check, style, facts.Database.Name, view.Diagnose(facts, docs.Reasons()))
	view.Explain(&explain, style, facts.Now, view.ExplainFacts(facts))
	view.Events(&events, style, facts.Now, view.Changes(facts, ""))
	known, err := redact.YAML(facts)
	if err != nil {
		return err
	}
	story := fmt.Sprintf("The database %s as it was at %s.\n\n-- facts.yaml --\n%s", facts.Database.Name,
		facts.Now.UTC().Format("2006-01-02 15:04:05"), known)
	for _, file := range []struct{ name, text string }{
		{"status.txt", status.String()}, {"check.txt", check.String()}, {"explain.txt", explain.String()},
		{"events.txt", events.String()}, {"scenario.txtar", story},
	} {
		if err := p.writer.Text(file.name, file.text); err != nil {
			return err
		}
	}
	return nil
}

// addStory adds what the operator sees, so that its decision can be made again elsewhere.
func (p *packer) addStory(ctx context.Context) error {
	source := recall.Source{
		Reader: p.Client, Scheme: p.Scheme(), Now: func() time.Time { return p.facts.Now }, Operator: p.facts.Deployment,
		Ask: func(ctx context.Context, pod corev1.Pod) (wire.Report, error) {
			if p.Plain == nil {
				return wire.Report{}, errors.New("there is no way to it")
			}
			return p.Report(ctx, pod)
		},
	}
	story, err := source.Take(ctx, &p.facts.Database)
	if err != nil {
		fmt.Fprintf(&p.problems, "%s: %v\n", recall.FileName, err)
		return nil
	}
	for _, unread := range story.Unread {
		fmt.Fprintf(&p.problems, "%s: %s\n", recall.FileName, unread)
	}
	document, err := story.Encode()
	if err != nil {
		return err
	}
	return p.writer.Redacted(recall.FileName, document)
}

// addObjects adds the children of the database and of its companions, and what they stand on. Secrets are not among
// them.
func (p *packer) addObjects(ctx context.Context) error {
	database := p.facts.Database
	owners := []struct {
		name     string
		selector client.MatchingLabels
	}{{database.Name, client.MatchingLabels{view.LabelDatabase: database.Name}}}
	companions := map[string][]view.Companion{}
	for _, one := range p.facts.Companions {
		of := one.Kind()
		companions[of.Many] = append(companions[of.Many], one)
		owners = append(owners, struct {
			name     string
			selector client.MatchingLabels
		}{of.One + "-" + one.GetName(), client.MatchingLabels{of.Label: one.GetName()}})
	}
	for _, owner := range owners {
		for _, child := range children() {
			err := p.addList(ctx, owner.name+"/"+child.name, child.list, client.InNamespace(database.Namespace), owner.selector)
			if err != nil {
				return err
			}
		}
	}
	for _, ground := range []listed{{"nodes", &corev1.NodeList{}}, {"storageclasses", &storagev1.StorageClassList{}}} {
		if err := p.addList(ctx, ground.name, ground.list); err != nil {
			return err
		}
	}
	objects := map[string]any{"geodatabase": database, "lease": p.facts.Lease}
	for _, of := range view.Companions {
		objects["geo"+of.Many] = companions[of.Many]
	}
	for name, object := range objects {
		if err := p.writer.Object("objects/"+name+".yaml", object); err != nil {
			return err
		}
	}
	return nil
}

// listed is a list of objects and the name of its file.
type listed struct {
	name string
	list client.ObjectList
}

func children() []listed {
	return []listed{
		{"pods", &corev1.PodList{}}, {"claims", &corev1.PersistentVolumeClaimList{}}, {"services", &corev1.ServiceList{}},
		{"configmaps", &corev1.ConfigMapList{}}, {"statefulsets", &appsv1.StatefulSetList{}},
		{"endpointslices", &discoveryv1.EndpointSliceList{}}, {"budgets", &policyv1.PodDisruptionBudgetList{}},
		{"networkpolicies", &networkingv1.NetworkPolicyList{}},
	}
}

func (p *packer) addList(
	ctx context.Context, name string, list client.ObjectList, options ...client.ListOption,
) error {
	if err := p.List(ctx, list, options...); err != nil {
		fmt.Fprintf(&p.problems, "%s: %v\n", name, err)
		return nil
	}
	return p.writer.Object("objects/"+name+".yaml", list)
}

// addPods adds the figures of each agent and the end of each log, also of the container before the last restart, and of
// the operator.
func (p *packer) addPods(ctx context.Context) error {
	if p.Plain == nil {
		return nil
	}
	pods := slices.Clone(p.facts.Pods)
	operators, err := p.Plain.CoreV1().Pods(p.Home).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=meridian,app.kubernetes.io/component=operator",
	})
	if err != nil {
		fmt.Fprintf(&p.problems, "pods of the operator: %v\n", err)
	} else {
		pods = append(pods, operators.Items...)
	}
	for _, pod := range pods {
		if figures, err := p.Figures(ctx, pod); err == nil {
			if err := p.writer.Text("figures/"+pod.Name+".txt", string(figures)); err != nil {
				return err
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if err := p.addLog(ctx, pod, container.Name, false); err != nil {
				return err
			}
			if container.RestartCount == 0 {
				continue
			}
			if err := p.addLog(ctx, pod, container.Name, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *packer) addLog(ctx context.Context, pod corev1.Pod, container string, previous bool) error {
	name := "logs/" + pod.Name + "-" + container
	if previous {
		name += "-before"
	}
	options := &corev1.PodLogOptions{Container: container, TailLines: &p.tail, Previous: previous}
	text, err := p.Plain.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if err != nil {
		fmt.Fprintf(&p.problems, "%s: %v\n", name, err)
		return nil
	}
	return p.writer.Text(name+".log", string(text))
}
