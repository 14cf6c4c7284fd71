package plugin

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/kind"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
)

// logWish is which lines are wanted.
type logWish struct {
	role   string
	with   map[string]*bool // The companions too, by the flag of their kind.
	follow bool
	since  time.Duration
	tail   int64
}

func (p *plugin) logsCommand() *cobra.Command {
	wanted := logWish{with: map[string]*bool{}}
	cmd := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Show the logs of all instances as one, in the order of time, each line with its instance and role",
		Long: "Show the logs of all instances as one, in the order of time, each line with its instance and role\n" +
			"(right: get pods/log). The role is that of now.",
		Example: "  kubectl meridian logs cities --since 10m\n  kubectl meridian logs cities --role primary --follow",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "primary", "replica"}, wanted.role) {
				return fmt.Errorf("unknown role %q: use primary or replica", wanted.role)
			}
			facts, in, err := p.facts(cmd.Context(), args)
			if err != nil {
				return err
			}
			sources := logSources(facts, wanted)
			if len(sources) == 0 {
				return fmt.Errorf("there is no pod to read from; see: kubectl meridian status %s", facts.Database.Name)
			}
			return p.showLogs(cmd.Context(), in, sources, wanted)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&wanted.role, "role", "", "only instances that are that now: primary or replica")
	for _, of := range view.Companions {
		wanted.with[of.Many] = flags.Bool(of.Many, false, "the "+of.Many+" of the database too")
	}
	flags.BoolVarP(&wanted.follow, "follow", "f", false, "go on with what comes")
	flags.DurationVar(&wanted.since, "since", 0, "only what is younger than that, such as 10m")
	flags.Int64Var(&wanted.tail, "tail", 100, "how many of the last lines of each instance; -1: all")
	return cmd
}

// logSource is one container whose log is shown.
type logSource struct {
	namespace, pod, container, title string
}

func logSources(facts view.Facts, wanted logWish) []logSource {
	var sources []logSource
	roles := view.Roles(view.Of(facts))
	for _, pod := range facts.Pods {
		title := roles[pod.Name]
		source := logSource{namespace: pod.Namespace, pod: pod.Name, container: kind.Database.Container, title: title}
		shown := wanted.role == "" || title == wanted.role
		for _, of := range view.Companions {
			if pod.Labels[of.Label] != "" {
				source.container, source.title, shown = of.Container, of.One, *wanted.with[of.Many]
			}
		}
		if !shown {
			continue
		}
		source.title = strings.TrimSpace(pod.Labels[view.LabelInstance] + " " + source.title)
		sources = append(sources, source)
	}
	return sources
}

// logLine is one line of a log, with the time at which the kubelet took it.
type logLine struct {
	at          time.Time
	title, text string
}

// showLogs prints what is there in the order of time, then what comes as it comes.
func (p *plugin) showLogs(ctx context.Context, in *cluster.Cluster, sources []logSource, wanted logWish) error {
	var lines []logLine
	last := map[string]time.Time{}
	for _, source := range sources {
		options := &corev1.PodLogOptions{Container: source.container, Timestamps: true}
		if wanted.tail >= 0 {
			options.TailLines = &wanted.tail
		}
		if wanted.since > 0 {
			seconds := int64(wanted.since.Seconds())
			options.SinceSeconds = &seconds
		}
		err := readLog(ctx, in, source, options, func(line logLine) {
			lines = append(lines, line)
			last[source.pod] = line.at
		})
		if err != nil {
			fmt.Fprintf(p.Err, "%s: %v\n", source.title, err)
		}
	}
	slices.SortStableFunc(lines, func(a, b logLine) int { return a.at.Compare(b.at) })
	width := widest(sources)
	for _, line := range lines {
		p.printLine(line, width)
	}
	if wanted.follow {
		p.followLogs(ctx, in, sources, last)
	}
	return nil
}

func (p *plugin) followLogs(
	ctx context.Context, in *cluster.Cluster, sources []logSource, last map[string]time.Time,
) {
	lines := make(chan logLine)
	var group sync.WaitGroup
	for _, source := range sources {
		after := last[source.pod]
		group.Go(func() {
			options := &corev1.PodLogOptions{Container: source.container, Timestamps: true, Follow: true}
			none := int64(0)
			options.TailLines = &none
			err := readLog(ctx, in, source, options, func(line logLine) {
				if line.at.After(after) {
					lines <- line
				}
			})
			if err != nil && ctx.Err() == nil {
				lines <- logLine{at: in.Now(), title: source.title, text: "the log has ended: " + err.Error()}
			}
		})
	}
	go func() { group.Wait(); close(lines) }()
	width := widest(sources)
	for line := range lines {
		p.printLine(line, width)
	}
}

func readLog(
	ctx context.Context, in *cluster.Cluster, source logSource, options *corev1.PodLogOptions, take func(logLine),
) error {
	stream, err := in.Plain.CoreV1().Pods(source.namespace).GetLogs(source.pod, options).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		take(parseLine(source.title, scanner.Text()))
	}
	return scanner.Err()
}

// parseLine takes off the time that the kubelet has put before the line.
func parseLine(title, text string) logLine {
	stamp, rest, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return logLine{title: title, text: text}
	}
	return logLine{at: at, title: title, text: rest}
}

func widest(sources []logSource) int {
	width := 0
	for _, source := range sources {
		width = max(width, len(source.title))
	}
	return width
}

func (p *plugin) printLine(line logLine, width int) {
	title := fmt.Sprintf("%-*s", width, line.title)
	if p.Colour && strings.HasSuffix(line.title, "primary") {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	fmt.Fprintf(p.Out, "%s  %s  %s\n", line.at.UTC().Format("15:04:05.000"), title, line.text)
}
