package cluster

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/internal/wire"
)

// figuresPatience is how long the figures of one instance are waited for: a screen must not hang at a lost node.
const figuresPatience = 2 * time.Second

// figures asks every agent for its figures, through the API server, all at once.
func (l *look) figures() {
	var lock sync.Mutex
	var group sync.WaitGroup
	failed := error(nil)
	for _, pod := range l.facts.Pods {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		group.Go(func() {
			text, err := l.Figures(l.ctx, pod)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed = err
				return
			}
			if l.facts.Figures == nil {
				l.facts.Figures = map[string]view.Figures{}
			}
			l.facts.Figures[pod.Name] = ParseFigures(text)
		})
	}
	group.Wait()
	l.unread("figures of some agents", failed)
}

// Figures is what the agent of a pod serves as metrics.
func (c *Cluster) Figures(ctx context.Context, pod corev1.Pod) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, figuresPatience)
	defer cancel()
	return c.Plain.CoreV1().Pods(pod.Namespace).
		ProxyGet("http", pod.Name, strconv.Itoa(wire.PortProbe), "/metrics", nil).DoRaw(ctx)
}

// Report is what the agent of a pod tells to anybody who may look at its pod.
func (c *Cluster) Report(ctx context.Context, pod corev1.Pod) (wire.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, figuresPatience)
	defer cancel()
	document, err := c.Plain.CoreV1().Pods(pod.Namespace).
		ProxyGet("http", pod.Name, strconv.Itoa(wire.PortProbe), wire.PathReport, nil).DoRaw(ctx)
	if err != nil {
		return wire.Report{}, err
	}
	return wire.DecodeReport(document)
}

// ParseFigures reads the text format of Prometheus. Samples that differ in their labels alone are added up, so it is
// of use for figures that an agent has once.
func ParseFigures(text []byte) view.Figures {
	figures := view.Figures{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil && strings.HasPrefix(name, "meridian_") {
			figures[name] += value
		}
	}
	return figures
}
