package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/cluster"
)

const (
	operatorNamespace  = "meridian-system"
	operatorDeployment = "meridian-operator"
	// imageAnnotation remembers, on the Deployment, which build of the image its pods run.
	imageAnnotation = "demo.meridian.dev/image"
	// made is where the demo remembers what it has made, so that `down` takes nothing of anybody else's.
	made = ".sandbox/demo.json"
)

// images are those that the sample needs. The others would take minutes more on a machine that has none yet.
var images = []string{"meridian", "pause", "postgis-17", "redis", "s3"}

// deeds are what the demo has made.
type deeds struct {
	Sandbox  bool `json:"sandbox,omitempty"`
	Operator bool `json:"operator,omitempty"`
}

func readDeeds() deeds {
	var done deeds
	if content, err := os.ReadFile(made); err == nil {
		_ = json.Unmarshal(content, &done) // What cannot be read was not made by the demo.
	}
	return done
}

func (d deeds) write() error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(".sandbox", 0o755); err != nil {
		return err
	}
	return os.WriteFile(made, content, 0o644)
}

// startSandbox starts it, or brings it back to its full state.
func (d *demo) startSandbox(ctx context.Context) error {
	up := exec.CommandContext(ctx, "bin/sandbox", "status").Run() == nil
	if !up {
		// What is remembered is of a sandbox that is gone.
		if err := (deeds{Sandbox: true}).write(); err != nil {
			return fmt.Errorf("remember what was made: %w", err)
		}
	}
	if err := d.stream(ctx, "bin/sandbox", "up", "--only", strings.Join(images, ",")); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	d.cluster, err = cluster.Open(config, operatorNamespace)
	return err
}

// stream runs a command and shows what it says. The last line is the reason if it fails.
func (d *demo) stream(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	last, shown := "", make(chan struct{})
	go func() {
		defer close(shown)
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			last = lines.Text()
			d.say("%s", last)
		}
	}()
	err := cmd.Run()
	_ = writer.Close()
	<-shown
	if err != nil {
		return fmt.Errorf("%s %s: %s", name, strings.Join(args, " "), last)
	}
	return nil
}

// kubectl runs the one that fits the sandbox. What it prints is of interest only when it fails.
func kubectl(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "bin/sandbox", append([]string{"kubectl"}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %s", strings.Join(args, " "), lastLine(said.String(), err))
	}
	return nil
}

func lastLine(said string, err error) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}

// install applies what any user applies. An operator that runs an older build of the image is restarted.
func (d *demo) install(ctx context.Context) error {
	key := client.ObjectKey{Namespace: operatorNamespace, Name: operatorDeployment}
	before, err := d.annotation(ctx, key)
	fresh := apierrors.IsNotFound(err)
	if err != nil && !fresh {
		return fmt.Errorf("look for the operator: %w", err)
	}
	if fresh {
		done := readDeeds()
		done.Operator = true
		if err := done.write(); err != nil {
			return fmt.Errorf("remember what was made: %w", err)
		}
	}
	image, err := imageFile(ctx)
	if err != nil {
		return err
	}
	if err := kubectl(ctx, "apply", "-k", "deploy"); err != nil {
		return err
	}
	d.say("kubectl apply -k deploy: definitions, rights, webhook, and two replicas of the operator")
	if before != image {
		if !fresh {
			d.say("the operator may run an older build of the image: restarting it")
			err := kubectl(ctx, "-n", operatorNamespace, "rollout", "restart", "deployment/"+operatorDeployment)
			if err != nil {
				return err
			}
		}
		err := kubectl(ctx, "-n", operatorNamespace, "annotate", "--overwrite", "deployment/"+operatorDeployment,
			imageAnnotation+"="+image)
		if err != nil {
			return err
		}
	}
	return kubectl(ctx, "-n", operatorNamespace, "rollout", "status", "deployment/"+operatorDeployment, "--timeout=120s")
}

func (d *demo) annotation(ctx context.Context, key client.ObjectKey) (string, error) {
	deployment, err := d.cluster.Plain.AppsV1().Deployments(key.Namespace).Get(ctx, key.Name, getOptions)
	if err != nil {
		return "", err
	}
	return deployment.Annotations[imageAnnotation], nil
}

// imageFile names the build of our image that the nodes have: its file is called after its content.
func imageFile(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "bin/sandbox", "image", "build", "meridian").Output()
	if err != nil {
		return "", fmt.Errorf("build the image: %w", err)
	}
	fields := strings.Fields(string(output))
	if len(fields) == 0 {
		return "", errors.New("build the image: it was not said where it is")
	}
	file := fields[len(fields)-1]
	return strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".tar"), nil
}

// down removes what the demo has made: all of it if it started the sandbox itself, otherwise its namespace, and the
// operator if nobody else needs it.
func (d *demo) down(ctx context.Context) error {
	if exec.CommandContext(ctx, "bin/sandbox", "status").Run() != nil {
		fmt.Fprintln(d.out, "There is no sandbox, so there is nothing of the demo.")
		return os.RemoveAll(made)
	}
	done := readDeeds()
	if done.Sandbox {
		fmt.Fprintln(d.out, "Removing the sandbox, which the demo has started, with everything in it.")
		if err := d.stream(ctx, "bin/sandbox", "down"); err != nil {
			return err
		}
		return os.RemoveAll(".sandbox")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	if d.cluster, err = cluster.Open(config, operatorNamespace); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "Removing the namespace %s; the sandbox was there before the demo and stays.\n", namespace)
	if err := d.removeNamespace(ctx); err != nil {
		return err
	}
	if done.Operator {
		if stays, err := d.removeOperator(ctx); err != nil || stays {
			return err
		}
	}
	return os.RemoveAll(made)
}

// removeNamespace deletes the database first, so that its volumes go as its spec says.
func (d *demo) removeNamespace(ctx context.Context) error {
	for _, args := range [][]string{
		{"-n", namespace, "delete", "gcache,gdb", "--all", "--ignore-not-found", "--timeout=120s"},
		{"delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s"},
	} {
		err := kubectl(ctx, args...)
		if err != nil && !strings.Contains(err.Error(), "the server doesn't have a resource type") {
			return err
		}
	}
	return nil
}

// removeOperator leaves it where others have databases: with the definitions, theirs would go too.
func (d *demo) removeOperator(ctx context.Context) (stays bool, err error) {
	var databases v1alpha1.GeoDatabaseList
	var caches v1alpha1.GeoCacheList
	if err := errors.Join(d.cluster.List(ctx, &databases), d.cluster.List(ctx, &caches)); err != nil {
		return false, fmt.Errorf("look for other databases: %w", err)
	}
	if count := len(databases.Items) + len(caches.Items); count > 0 {
		fmt.Fprintf(d.out, "The operator stays: %d databases and caches of others need it.\n", count)
		return true, nil
	}
	fmt.Fprintln(d.out, "Removing the operator, which the demo has installed.")
	return false, kubectl(ctx, "delete", "-k", "deploy", "--ignore-not-found", "--timeout=120s")
}

// makeNamespace makes it with the strictest level of pod security, and waits for an old one of that name to go.
func (d *demo) makeNamespace(ctx context.Context) error {
	for start := time.Now(); ; {
		space := &corev1.Namespace{}
		space.Name, space.Labels = namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
		err := d.cluster.Create(ctx, space)
		if apierrors.IsAlreadyExists(err) {
			if err = d.cluster.Get(ctx, client.ObjectKey{Name: namespace}, space); err == nil && space.DeletionTimestamp == nil {
				return nil
			}
		} else if err == nil {
			return nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("make the namespace %s: %w", namespace, err)
		}
		if time.Since(start) > 2*time.Minute {
			return fmt.Errorf("the namespace %s is still being deleted", namespace)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// pause waits, or returns early when the demo is stopped.
func pause(ctx context.Context, span time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(span):
		return nil
	}
}
