package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/call"
)

// surroundings are the objects of the API server by which others find this instance. It implements tenure.Surroundings.
type surroundings struct {
	server               *call.Server
	namespace, pod, name string // name is that of the EndpointSlice.
	// podUID is the own pod: one of the same name may have taken its place while this agent is cut off.
	podUID string
	// may says that a write in the name of a term is still right, asked at the last moment.
	may  func(term int64) bool
	tell func(tenure.Event)
	log  logr.Logger

	mutex  sync.Mutex
	pauses map[string]time.Duration // How long to wait after a failure, by what failed.
}

// Pauses after failures.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 10 * time.Second
)

// attempt runs it beside the loop. A failure is told after a pause, so that what always fails is not tried at once
// again.
func (s *surroundings) attempt(what string, run func(context.Context) (tenure.Event, error)) {
	go func() {
		event, err := run(context.Background())
		if err != nil {
			s.log.Info("failing at the API server", "what", what, "error", err.Error())
		}
		time.Sleep(s.pause(what, err))
		s.tell(event)
	}()
}

func (s *surroundings) pause(what string, err error) time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pauses == nil {
		s.pauses = map[string]time.Duration{}
	}
	if err == nil {
		delete(s.pauses, what)
		return 0
	}
	s.pauses[what] = min(max(2*s.pauses[what], firstPause), lastPause)
	return s.pauses[what]
}

// slice is the part of an EndpointSlice that the agents read and write. The rest is left as it is.
type slice struct {
	object  map[string]any
	address string
	term    int64
}

func (s *surroundings) slicePath() string {
	return fmt.Sprintf("/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices/%s", url.PathEscape(s.namespace),
		url.PathEscape(s.name))
}

func decodeSlice(body []byte) (slice, error) {
	var read slice
	if err := json.Unmarshal(body, &read.object); err != nil {
		return slice{}, fmt.Errorf("decode the write address: %w", err)
	}
	metadata, _ := read.object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if text, found := annotations[wire.AnnotationTerm].(string); found {
		term, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return slice{}, fmt.Errorf("decode the write address: its term: %w", err)
		}
		read.term = term
	}
	// A slice that leads to more than one place is nobody's that wrote it: all are told, so that none looks right.
	var all []string
	endpoints, _ := read.object["endpoints"].([]any)
	for _, each := range endpoints {
		endpoint, _ := each.(map[string]any)
		addresses, _ := endpoint["addresses"].([]any)
		for _, address := range addresses {
			text, _ := address.(string)
			all = append(all, text)
		}
	}
	read.address = strings.Join(all, ",")
	return read, nil
}

func (s *surroundings) readSlice(ctx context.Context) (slice, error) {
	body, err := s.server.Do(ctx, call.Request{Method: http.MethodGet, Path: s.slicePath()})
	if err != nil {
		return slice{}, err
	}
	return decodeSlice(body)
}

// watch tells that the write address has changed, until the context ends. It does not tell what it is now: a consistent
// read shows that, and a watch may lag. A watch that cannot be kept tells so each time that it is lost.
func (s *surroundings) watch(ctx context.Context) {
	folder, _ := path.Split(s.slicePath())
	query := url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + s.name}}
	s.server.Watch(ctx, call.Watch{
		Path: strings.TrimSuffix(folder, "/") + "?" + query.Encode(),
		Each: func(call.Frame) (time.Duration, error) {
			s.tell(tenure.RouteTouched{})
			return 0, nil
		},
		Lost: func(error) { s.tell(tenure.RouteTouched{}) },
	})
}

// ReadRoute implements tenure.Surroundings.
func (s *surroundings) ReadRoute() {
	s.attempt("read the write address", func(ctx context.Context) (tenure.Event, error) {
		read, err := s.readSlice(ctx)
		if call.CodeOf(err) == http.StatusNotFound {
			return tenure.RouteSeen{Known: true, Absent: true}, nil
		}
		return tenure.RouteSeen{Known: err == nil, Address: read.address, Term: read.term}, err
	})
}

// WriteRoute implements tenure.Surroundings. The route of a later term is never overwritten: the write demands the
// version whose term was looked at. A route that leads nowhere needs no right to lead: whoever closes it gives that up.
func (s *surroundings) WriteRoute(address string, term int64) {
	s.attempt("write the write address", func(ctx context.Context) (tenure.Event, error) {
		read, err := s.readSlice(ctx)
		if call.CodeOf(err) == http.StatusNotFound {
			return tenure.RouteSeen{Known: true, Absent: true}, nil
		}
		if err != nil {
			return tenure.RouteSeen{}, err
		}
		if read.term > term || address != "" && !s.may(term) {
			return tenure.RouteSeen{Known: true, Address: read.address, Term: read.term},
				fmt.Errorf("the write address is of term %d", read.term)
		}
		document, err := read.leadTo(address, s.pod, s.namespace, term)
		if err != nil {
			return tenure.RouteSeen{}, err
		}
		_, err = s.server.Do(ctx, call.Request{Method: http.MethodPut, Path: s.slicePath(), Body: document})
		if err != nil {
			return tenure.RouteSeen{}, err
		}
		return tenure.RouteSeen{Known: true, Address: address, Term: term}, nil
	})
}

// leadTo encodes the slice with one endpoint, or with none for no address.
func (s slice) leadTo(address, pod, namespace string, term int64) ([]byte, error) {
	metadata, _ := s.object["metadata"].(map[string]any)
	if metadata == nil {
		return nil, fmt.Errorf("the write address has no metadata")
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[wire.AnnotationTerm] = strconv.FormatInt(term, 10)
	metadata["annotations"] = annotations
	delete(metadata, "managedFields")
	endpoints := []any{}
	if address != "" {
		endpoints = append(endpoints, map[string]any{
			"addresses":  []any{address},
			"conditions": map[string]any{"ready": true, "serving": true, "terminating": false},
			"targetRef":  map[string]any{"kind": "Pod", "namespace": namespace, "name": pod},
		})
	}
	s.object["endpoints"] = endpoints
	return json.Marshal(s.object)
}

// WriteLabels implements tenure.Surroundings. The UID in the patch makes the API server refuse it for another pod.
func (s *surroundings) WriteLabels(role string, read bool, cut string, use int) {
	s.attempt("label the pod", func(ctx context.Context) (tenure.Event, error) {
		labels := map[string]string{wire.LabelRole: role, wire.LabelRead: strconv.FormatBool(read)}
		annotations := map[string]any{wire.AnnotationCutOff: nil, wire.AnnotationVolumeUse: nil}
		if cut != "" {
			annotations[wire.AnnotationCutOff] = cut
		}
		if use > 0 {
			annotations[wire.AnnotationVolumeUse] = strconv.Itoa(use)
		}
		document, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": s.podUID, "labels": labels, "annotations": annotations},
		})
		if err != nil {
			return tenure.Labelled{}, err
		}
		_, err = s.server.Do(ctx, call.Request{
			Method: http.MethodPatch, Type: "application/merge-patch+json", Body: document,
			Path: fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", url.PathEscape(s.namespace), url.PathEscape(s.pod)),
		})
		return tenure.Labelled{Done: err == nil, Role: role, Read: read, Cut: cut, Use: use}, err
	})
}

// ReadCuts implements tenure.Surroundings. A pod that is not there, or not to be read, says nothing.
func (s *surroundings) ReadCuts(instances []string) {
	s.attempt("read what the members say", func(ctx context.Context) (tenure.Event, error) {
		var seen tenure.CutsSeen
		for _, instance := range instances {
			body, err := s.server.Do(ctx, call.Request{Method: http.MethodGet, Path: fmt.Sprintf(
				"/api/v1/namespaces/%s/pods/%s", url.PathEscape(s.namespace), url.PathEscape(instance+"-0"))})
			if call.CodeOf(err) == http.StatusNotFound {
				continue
			}
			if err != nil {
				return seen, err
			}
			var pod struct {
				Metadata struct {
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			}
			if err := json.Unmarshal(body, &pod); err != nil {
				return seen, fmt.Errorf("decode the pod of %s: %w", instance, err)
			}
			if cut, found := wire.DecodeCutOff(pod.Metadata.Annotations[wire.AnnotationCutOff]); found {
				seen.Cuts = append(seen.Cuts, cut)
			}
		}
		return seen, nil
	})
}
