// Package plugin is `kubectl meridian`: the verbs with which a person looks at databases and asks for changes. It does
// everything with the rights of that person, says what it could not see for lack of them, and never reads a Secret.
//
// What is shown is decided in view, which is pure; what is read, in cluster. A verb has a file of its own here. Start
// reading at New.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
)

// Surroundings is what the plugin knows of its process.
type Surroundings struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal says that a person looks at Out, Colour that colours are wanted there.
	Terminal, Colour bool
	// Version is that of this binary.
	Version string
	// Run hands the terminal over to another program.
	Run func(ctx context.Context, name string, args ...string) error
	// Capture runs another program and returns what it prints; an error has its last words.
	Capture func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Connect is how the cluster is found; nil means by kubeconfig.
	Connect func() (*cluster.Cluster, string, error)
}

// plugin is one call of it.
type plugin struct {
	Surroundings
	kubeconfig, context, namespace, user, home string
	output                                     string
}

// New is the whole command.
func New(around Surroundings) *cobra.Command {
	p := &plugin{Surroundings: around}
	root := &cobra.Command{
		Use:   "kubectl-meridian",
		Short: "Look at geographic databases, and ask for changes",
		Long: "Look at geographic databases, and ask for changes. Everything is done with your own rights; what you may\n" +
			"not read is left out and named. No Secret is ever read.",
		Example: "  kubectl meridian status                 # the databases of the namespace\n" +
			"  kubectl meridian check cities           # what is wrong, and where to read on\n" +
			"  kubectl meridian explain cities         # why the operator does nothing right now",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl meridian"},
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(around.In)
	root.SetOut(around.Out)
	root.SetErr(around.Err)
	flags := root.PersistentFlags()
	flags.StringVar(&p.kubeconfig, "kubeconfig", "", "file with the credentials")
	flags.StringVar(&p.context, "context", "", "context of the kubeconfig")
	flags.StringVarP(&p.namespace, "namespace", "n", "", "namespace of the database; that of the context if empty")
	flags.StringVar(&p.user, "as", "", "user to act as, if you have the right to")
	flags.StringVar(&p.home, "operator-namespace", "meridian-system", "namespace of the operator")
	root.AddCommand(p.statusCommand(), p.checkCommand(), p.explainCommand(), p.eventsCommand(), p.logsCommand(),
		p.psqlCommand(), p.planCommand(), p.backupsCommand(), p.restoreCommand(), p.switchoverCommand(), p.restartCommand(),
		p.snapshotCommand(), p.runbookCommand(), p.versionCommand(), p.completionCommand())
	return root
}

// printable adds the flag for output that programs read.
func (p *plugin) printable(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVarP(&p.output, "output", "o", "", "format of the output: json or yaml instead of text")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"", "json", "yaml"}, p.output) {
			return fmt.Errorf("unknown output format %q: use json or yaml", p.output)
		}
		return run(cmd, args)
	}
	return cmd
}

// print writes data for programs, or the text for people.
func (p *plugin) print(data any, text func(io.Writer)) error {
	switch p.output {
	case "json":
		encoder := json.NewEncoder(p.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(data)
	case "yaml":
		content, err := yaml.Marshal(data)
		if err != nil {
			return err
		}
		_, err = p.Out.Write(content)
		return err
	default:
		text(p.Out)
		return nil
	}
}

func (p *plugin) style() view.Style { return view.Style{Colour: p.Colour} }

// connect finds the cluster and the namespace that is meant.
func (p *plugin) connect() (*cluster.Cluster, string, error) {
	if p.Connect != nil {
		found, namespace, err := p.Connect()
		if p.namespace != "" {
			namespace = p.namespace
		}
		return found, namespace, err
	}
	config, namespace, err := p.configuration()
	if err != nil {
		return nil, "", err
	}
	found, err := cluster.Open(config, p.home)
	return found, namespace, err
}

func (p *plugin) configuration() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: p.context}
	overrides.Context.Namespace = p.namespace
	overrides.AuthInfo.Impersonate = p.user
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("find the cluster: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("find the namespace: %w", err)
	}
	return config, namespace, nil
}

// kubectlArgs are the flags of this call that kubectl has too.
func (p *plugin) kubectlArgs(namespace string) []string {
	args := []string{"--namespace", namespace}
	for _, flag := range [][2]string{{"--kubeconfig", p.kubeconfig}, {"--context", p.context}, {"--as", p.user}} {
		if flag[1] != "" {
			args = append(args, flag[:]...)
		}
	}
	return args
}

// choose finds the database that is meant: the named one, or the only one.
func choose(ctx context.Context, in *cluster.Cluster, namespace string, args []string) (client.ObjectKey, error) {
	if len(args) > 0 {
		return client.ObjectKey{Namespace: namespace, Name: strings.TrimPrefix(args[0], "gdb/")}, nil
	}
	keys, err := in.Names(ctx, namespace)
	switch {
	case err != nil:
		return client.ObjectKey{}, err
	case len(keys) == 0:
		return client.ObjectKey{}, fmt.Errorf("there is no GeoDatabase in the namespace %s", namespace)
	case len(keys) > 1:
		return client.ObjectKey{}, fmt.Errorf("there are %d databases in the namespace %s: name one", len(keys), namespace)
	}
	return keys[0], nil
}

// facts reads about the database that is meant.
func (p *plugin) facts(ctx context.Context, args []string) (view.Facts, *cluster.Cluster, error) {
	in, namespace, err := p.connect()
	if err != nil {
		return view.Facts{}, nil, err
	}
	key, err := choose(ctx, in, namespace, args)
	if err != nil {
		return view.Facts{}, nil, err
	}
	facts, err := in.Facts(ctx, key)
	return facts, in, err
}

// complete offers the names of databases to the shell.
func (p *plugin) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	in, namespace, err := p.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
	defer cancel()
	var names []string
	keys, _ := in.Names(ctx, namespace) // Who may not list them completes nothing.
	for _, key := range keys {
		names = append(names, key.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// errUnsound ends a check that found something, after everything was printed.
var errUnsound = errors.New("something is wrong, see above")
