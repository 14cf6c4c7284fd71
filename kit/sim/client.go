package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// apiClient is the client of a process, with or without its cache.
type apiClient struct {
	process *Process
	cached  bool
}

var _ client.Client = (*apiClient)(nil)

func (c *apiClient) server() *Server { return c.process.server }

// Get implements client.Reader.
func (c *apiClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	kind, err := c.GroupVersionKindFor(into)
	if err != nil {
		return err
	}
	if c.cached && c.process.cache.Holds(kind) {
		if c.process.Crashed() {
			return ErrCrashed
		}
		return c.process.cache.Get(ctx, key, into, o...)
	}
	at := Target{Kind: kind, Key: key}
	return c.process.do(ctx, call(Get, at), func() (func() error, error) {
		found, err := c.server().look(at, 0)
		return func() error { return c.server().decodeStored(found, into) }, err
	})
}

// List implements client.Reader.
func (c *apiClient) List(ctx context.Context, into client.ObjectList, o ...client.ListOption) error {
	query, err := c.server().query(into, o)
	if err != nil {
		return err
	}
	if c.cached && c.process.cache.Holds(query.Kind) {
		if c.process.Crashed() {
			return ErrCrashed
		}
		return c.process.cache.List(ctx, into, o...)
	}
	at := Target{Kind: query.Kind, Key: client.ObjectKey{Namespace: query.Namespace}}
	return c.process.do(ctx, call(List, at), func() (func() error, error) {
		found, version, err := c.server().list(query)
		return func() error { return c.server().decodeList(found, version, into) }, err
	})
}

// Create implements client.Writer.
func (c *apiClient) Create(ctx context.Context, obj client.Object, o ...client.CreateOption) error {
	options := (&client.CreateOptions{}).ApplyOptions(o)
	return c.write(ctx, Create, obj, request{dryRun: options.DryRun, send: c.server().create})
}

// Update implements client.Writer.
func (c *apiClient) Update(ctx context.Context, obj client.Object, o ...client.UpdateOption) error {
	options := (&client.UpdateOptions{}).ApplyOptions(o)
	return c.write(ctx, Update, obj, request{dryRun: options.DryRun, send: c.server().update})
}

// Patch implements client.Writer.
func (c *apiClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, o ...client.PatchOption) error {
	options := (&client.PatchOptions{}).ApplyOptions(o)
	return c.patch(ctx, obj, patch, request{dryRun: options.DryRun})
}

// request is what differs between the ways to write.
type request struct {
	subresource string
	dryRun      []string
	send        func(Target, *unstructured.Unstructured) (state, error)
}

// write sends an object and replaces it by the answer.
func (c *apiClient) write(ctx context.Context, verb Verb, obj client.Object, wanted request) error {
	sent, err := c.server().encode(obj)
	if err != nil {
		return err
	}
	at := c.target(sent.GroupVersionKind(), obj, wanted)
	_, untyped := obj.(runtime.Unstructured)
	at.typed = !untyped
	made := call(verb, at)
	if verb == Update {
		made.UID, made.ResourceVersion = sent.GetUID(), sent.GetResourceVersion()
	}
	return c.process.do(ctx, made, func() (func() error, error) {
		stored, err := wanted.send(at, sent)
		return func() error { return c.server().decodeStored(stored, obj) }, err
	})
}

func (c *apiClient) patch(ctx context.Context, obj client.Object, patch client.Patch, wanted request) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	at, change := c.target(kind, obj, wanted), Change{patch.Type(), data}
	made := call(Patch, at)
	if c.process.life.Hook != nil {
		made.UID, made.ResourceVersion = change.conditions()
	}
	return c.process.do(ctx, made, func() (func() error, error) {
		stored, err := c.server().patch(at, change)
		return func() error { return c.server().decodeStored(stored, obj) }, err
	})
}

// Delete implements client.Writer.
func (c *apiClient) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	options := (&client.DeleteOptions{}).ApplyOptions(o)
	at := c.target(kind, obj, request{dryRun: options.DryRun})
	made := call(Delete, at)
	if conditions := options.Preconditions; conditions != nil {
		made.UID, made.ResourceVersion = valueOf(conditions.UID), valueOf(conditions.ResourceVersion)
	}
	return c.process.do(ctx, made, func() (func() error, error) {
		return nil, c.server().Delete(at, *options.AsDeleteOptions())
	})
}

// DeleteAllOf implements client.Writer.
func (c *apiClient) DeleteAllOf(ctx context.Context, obj client.Object, o ...client.DeleteAllOfOption) error {
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	options := (&client.DeleteAllOfOptions{}).ApplyOptions(o)
	query := Query{
		Kind: kind, Namespace: options.Namespace, Labels: options.LabelSelector, Fields: options.FieldSelector,
	}
	at := Target{Kind: kind, Key: client.ObjectKey{Namespace: options.Namespace}, DryRun: dryRun(options.DryRun)}
	return c.process.do(ctx, call(DeleteCollection, at), func() (func() error, error) {
		found, _, err := c.server().list(query)
		if err != nil {
			return nil, err
		}
		for _, listed := range found {
			each := Target{Kind: kind, Key: keyOf(listed.object), DryRun: at.DryRun}
			if err := c.server().Delete(each, *options.AsDeleteOptions()); err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
		return nil, nil
	})
}

// Apply implements client.Writer: it is refused.
func (c *apiClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return unsupported("server-side apply is not simulated")
}

// Status implements client.Client.
func (c *apiClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *apiClient) SubResource(name string) client.SubResourceClient {
	return &subresource{client: c, name: name}
}

// Scheme implements client.Client.
func (c *apiClient) Scheme() *runtime.Scheme { return c.server().scheme }

// RESTMapper implements client.Client.
func (c *apiClient) RESTMapper() meta.RESTMapper { return c.server().mapper }

// GroupVersionKindFor implements client.Client.
func (c *apiClient) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.server().scheme)
}

// IsObjectNamespaced implements client.Client.
func (c *apiClient) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return false, err
	}
	found, err := c.server().table(kind)
	if err != nil {
		return false, err
	}
	return !found.kind.Cluster, nil
}

func (c *apiClient) target(kind schema.GroupVersionKind, obj client.Object, wanted request) Target {
	return Target{
		Kind: kind, Key: client.ObjectKeyFromObject(obj), Subresource: wanted.subresource, DryRun: dryRun(wanted.dryRun),
	}
}

func valueOf[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

func dryRun(wanted []string) bool { return slices.Contains(wanted, metav1.DryRunAll) }

func call(verb Verb, at Target) Call {
	return Call{Verb: verb, Kind: at.Kind, Key: at.Key, Subresource: at.Subresource, DryRun: at.DryRun}
}

// subresource is the client of status, scale, eviction or resize.
type subresource struct {
	client *apiClient
	name   string
}

// Get implements client.SubResourceReader, for scale.
func (r *subresource) Get(
	ctx context.Context, obj, into client.Object, _ ...client.SubResourceGetOption,
) error {
	scale, ok := into.(*autoscalingv1.Scale)
	if !ok || r.name != "scale" {
		return r.unknown("read", into)
	}
	kind, err := r.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	at := r.client.target(kind, obj, request{subresource: r.name})
	return r.client.process.do(ctx, call(Get, at), func() (func() error, error) {
		found, err := r.client.server().Scale(at)
		return func() error { *scale = *found; return nil }, err
	})
}

// Create implements client.SubResourceWriter, for evictions.
func (r *subresource) Create(
	ctx context.Context, obj, body client.Object, o ...client.SubResourceCreateOption,
) error {
	eviction, ok := body.(*policyv1.Eviction)
	if !ok || r.name != "eviction" {
		return r.unknown("create", body)
	}
	kind, err := r.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	options := (&client.SubResourceCreateOptions{}).ApplyOptions(o)
	at := r.client.target(kind, obj, request{subresource: r.name, dryRun: options.DryRun})
	deletion := metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		deletion = *eviction.DeleteOptions
	}
	return r.client.process.do(ctx, call(Create, at), func() (func() error, error) {
		return nil, r.client.server().Delete(at, deletion)
	})
}

// Update implements client.SubResourceWriter, for status and scale.
func (r *subresource) Update(ctx context.Context, obj client.Object, o ...client.SubResourceUpdateOption) error {
	options := (&client.SubResourceUpdateOptions{}).ApplyOptions(o)
	if r.name == "scale" {
		return r.scale(ctx, obj, options)
	}
	wanted := request{subresource: r.name, dryRun: options.DryRun, send: r.client.server().update}
	if options.SubResourceBody != nil {
		sent, err := r.client.server().encode(options.SubResourceBody)
		if err != nil {
			return err
		}
		wanted.send = func(at Target, _ *unstructured.Unstructured) (state, error) {
			at.typed = false
			return r.client.server().update(at, sent)
		}
	}
	return r.client.write(ctx, Update, obj, wanted)
}

// Patch implements client.SubResourceWriter, for status and resize.
func (r *subresource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, o ...client.SubResourcePatchOption,
) error {
	options := (&client.SubResourcePatchOptions{}).ApplyOptions(o)
	if r.name != "status" && r.name != "resize" || options.SubResourceBody != nil {
		return r.unknown("patch", obj)
	}
	return r.client.patch(ctx, obj, patch, request{subresource: r.name, dryRun: options.DryRun})
}

// Apply implements client.SubResourceWriter: it is refused.
func (r *subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return unsupported("server-side apply is not simulated")
}

func (r *subresource) scale(ctx context.Context, obj client.Object, o *client.SubResourceUpdateOptions) error {
	scale, ok := o.SubResourceBody.(*autoscalingv1.Scale)
	if !ok {
		return errors.New("scale: the body has to be an autoscaling/v1 Scale")
	}
	kind, err := r.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	at := r.client.target(kind, obj, request{subresource: r.name, dryRun: o.DryRun})
	return r.client.process.do(ctx, call(Update, at), func() (func() error, error) {
		stored, err := r.client.server().SetScale(at, scale)
		return func() error { *scale = *stored; return nil }, err
	})
}

func (r *subresource) unknown(verb string, obj client.Object) error {
	return fmt.Errorf("%s %T at subresource %q: not simulated", verb, obj, r.name)
}

// Scale returns the scale subresource of an object.
func (s *Server) Scale(at Target) (*autoscalingv1.Scale, error) {
	at.Subresource = "scale"
	found, err := s.Get(at)
	if err != nil {
		return nil, err
	}
	return s.byKind[at.Kind].kind.scaleOf(found), nil
}

// SetScale changes the number of replicas, and nothing else.
func (s *Server) SetScale(at Target, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.Subresource = "scale"
	table, key, err := s.open(at)
	if err != nil {
		return nil, err
	}
	old := table.now(key)
	if old == nil {
		return nil, apierrors.NewNotFound(table.kind.resource(), key.Name)
	}
	if scale.UID != "" && scale.UID != old.GetUID() {
		return nil, conflict(table.kind, key, "Precondition failed: UID")
	}
	object := old.DeepCopy()
	if scale.ResourceVersion != "" {
		object.SetResourceVersion(scale.ResourceVersion)
	}
	setAt(object.Object, table.kind.Scale.Replicas, int64(scale.Spec.Replicas))
	at.Subresource = "" // What it changes is the object itself.
	stored, err := s.replace(table, at, old, object)
	if err != nil {
		return nil, err
	}
	return table.kind.scaleOf(stored.object), nil
}

func (k *Kind) scaleOf(object *unstructured.Unstructured) *autoscalingv1.Scale {
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), CreationTimestamp: object.GetCreationTimestamp(),
	}}
	scale.Spec.Replicas = number(valueAt(object.Object, k.Scale.Replicas))
	scale.Status.Replicas = number(valueAt(object.Object, k.Scale.StatusReplicas))
	switch selector := valueAt(object.Object, k.Scale.Selector).(type) {
	case string:
		scale.Status.Selector = selector
	case map[string]any:
		typed := &metav1.LabelSelector{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(selector, typed) == nil {
			scale.Status.Selector = metav1.FormatLabelSelector(typed)
		}
	}
	return scale
}

func number(value any) int32 {
	whole, _ := value.(int64)
	return int32(whole)
}
