package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Target is what a request is about.
type Target struct {
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
	// Subresource is empty for the object itself; status, and resize of a pod, can be written here.
	Subresource string
	// DryRun means that the answer is wanted without the change.
	DryRun bool

	// typed means that what is sent was encoded from the Go type of its kind, and so has its form already.
	typed bool
}

var metadataPath = field.NewPath("metadata")

// copied is what a caller gets.
func copied(stored state, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, err
	}
	return stored.object.DeepCopy(), nil
}

// unstored is the answer to a request that has stored nothing new.
func unstored(object *unstructured.Unstructured) state { return state{object: object, forms: &forms{}} }

// Create stores a new object and returns it as it was stored.
func (s *Server) Create(at Target, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return copied(s.create(at, sent))
}

func (s *Server) create(at Target, sent *unstructured.Unstructured) (state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table, key, err := s.open(at)
	if err != nil {
		return state{}, err
	}
	object, err := s.received(table.kind, at, sent)
	if err != nil {
		return state{}, err
	}
	object.SetNamespace(key.Namespace)
	object.SetDeletionTimestamp(nil)
	object.SetDeletionGracePeriodSeconds(nil)
	return s.insert(table, object, at.DryRun)
}

// insert completes, checks and stores an object that does not exist, or so the caller hopes.
func (s *Server) insert(t *table, object *unstructured.Unstructured, dryRun bool) (state, error) {
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(object.GetGenerateName() + suffix(s.made))
	}
	object.SetManagedFields(nil)
	if t.kind.Status {
		delete(object.Object, "status")
	}
	if t.kind.Generation {
		object.SetGeneration(1)
	}
	if t.kind.Prepare != nil {
		t.kind.Prepare(object.Object, nil)
	}
	object, err := s.canonical(t.kind, object)
	if err != nil {
		return state{}, err
	}
	// The identity comes last: a refused request must not change what the next one gets.
	object.SetCreationTimestamp(metav1.NewTime(s.now().UTC()))
	errs := validation.ValidateObjectMetaAccessor(object, !t.kind.Cluster, t.kind.validName(), metadataPath)
	if t.kind.Check != nil {
		errs = append(errs, t.kind.Check(object.Object, nil)...)
	}
	if len(errs) > 0 {
		return state{}, apierrors.NewInvalid(t.kind.GroupKind(), object.GetName(), errs)
	}
	if object.GetResourceVersion() != "" && !dryRun {
		return state{}, plainError("resourceVersion should not be set on objects to be created")
	}
	if t.now(keyOf(object)) != nil {
		return state{}, apierrors.NewAlreadyExists(t.kind.resource(), object.GetName())
	}
	if dryRun {
		object.SetUID("00000000-0000-4000-8000-000000000000")
		return unstored(object), nil
	}
	object.SetUID(s.uid())
	return s.put(t, object), nil
}

// Update replaces an object and returns it as it was stored. Nothing happens if nothing changes.
func (s *Server) Update(at Target, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return copied(s.update(at, sent))
}

func (s *Server) update(at Target, sent *unstructured.Unstructured) (state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table, key, err := s.open(at)
	if err != nil {
		return state{}, err
	}
	object, err := s.received(table.kind, at, sent)
	if err != nil {
		return state{}, err
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	old := table.now(key)
	if old == nil && (!table.kind.CreateOnUpdate || at.Subresource != "") {
		return state{}, apierrors.NewNotFound(table.kind.resource(), key.Name)
	}
	var uid types.UID
	if old != nil {
		uid = old.GetUID()
	}
	// A UID in the body of an update is a precondition.
	if sent := object.GetUID(); sent != "" && sent != uid {
		return state{}, conflict(table.kind, key, "Precondition failed: UID in precondition: "+string(sent)+
			", UID in object meta: "+string(uid))
	}
	if old != nil {
		return s.replace(table, at, old, object)
	}
	object.SetResourceVersion("")
	return s.insert(table, object, at.DryRun)
}

// replace brings an existing object into a new state.
func (s *Server) replace(t *table, at Target, old, object *unstructured.Unstructured) (
	state, error,
) {
	key := keyOf(old)
	switch sent := object.GetResourceVersion(); {
	case sent == "" && t.kind.Conditional:
		return state{}, apierrors.NewInvalid(t.kind.GroupKind(), key.Name, field.ErrorList{field.Invalid(
			metadataPath.Child("resourceVersion"), int64(0), "must be specified for an update")})
	case sent != "" && sent != old.GetResourceVersion():
		return state{}, conflict(t.kind, key, "the object has been modified; "+
			"please apply your changes to the latest version and try again")
	}
	object, err := s.prepareUpdate(t.kind, at.Subresource, object, old)
	if err != nil {
		return state{}, err
	}
	errs := validation.ValidateObjectMetaAccessor(object, !t.kind.Cluster, t.kind.validName(), metadataPath)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(object, old, metadataPath)...)
	if t.kind.Check != nil && at.Subresource != "resize" {
		errs = append(errs, t.kind.Check(object.Object, old.Object)...)
	}
	if len(errs) > 0 {
		return state{}, apierrors.NewInvalid(t.kind.GroupKind(), key.Name, errs)
	}
	// The last finalizer was taken away: the deletion that waited for it happens instead of the update.
	if finished(object) {
		if !at.DryRun {
			s.remove(t, key)
		}
		return unstored(object), nil
	}
	if at.DryRun || equality.Semantic.DeepEqual(object.Object, old.Object) {
		return unstored(object), nil
	}
	return s.put(t, object), nil
}

// prepareUpdate takes over from the old object what the request may not change.
func (s *Server) prepareUpdate(kind *Kind, subresource string, object, old *unstructured.Unstructured) (
	*unstructured.Unstructured, error,
) {
	object.SetManagedFields(nil)
	switch {
	case subresource == "status" && kind.Custom:
		status := object.Object["status"]
		object = old.DeepCopy()
		putOrDelete(object.Object, "status", status)
	case subresource == "status":
		object = s.statusOnly(kind, object, old)
	case subresource == "resize":
		object = resourcesOnly(object, old)
	case kind.Status:
		putOrDelete(object.Object, "status", old.DeepCopy().Object["status"])
	}
	object.SetGeneration(old.GetGeneration())
	if kind.Prepare != nil { // Without it the object still has the form in which it was received.
		kind.Prepare(object.Object, old.Object)
		formed, err := s.formed(kind, object)
		if err != nil {
			return nil, err
		}
		object = formed
	}
	if kind.Generation && !equality.Semantic.DeepEqual(kind.wanted(object), kind.wanted(old)) {
		object.SetGeneration(old.GetGeneration() + 1)
	}
	// What a client may leave out: who sends less means no change. An object that is being deleted stays so.
	object.SetResourceVersion(old.GetResourceVersion())
	if object.GetUID() == "" {
		object.SetUID(old.GetUID())
	}
	object.SetCreationTimestamp(old.GetCreationTimestamp())
	if since := old.GetDeletionTimestamp(); since != nil {
		object.SetDeletionTimestamp(since)
	}
	if object.GetDeletionGracePeriodSeconds() == nil {
		object.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	return object, nil
}

// statusOnly keeps everything but status and metadata: built-in kinds let labels, annotations and finalizers through.
func (s *Server) statusOnly(kind *Kind, object, old *unstructured.Unstructured) *unstructured.Unstructured {
	result := old.DeepCopy()
	result.Object["metadata"] = object.Object["metadata"]
	putOrDelete(result.Object, "status", object.Object["status"])
	switch kind.GroupVersionKind.Kind {
	case "Pod":
		result.SetOwnerReferences(old.GetOwnerReferences())
		result.SetDeletionTimestamp(nil)
	case "Deployment":
		result.SetLabels(old.GetLabels())
	}
	return result
}

// resourcesOnly keeps everything of a pod but the resources of its containers.
func resourcesOnly(object, old *unstructured.Unstructured) *unstructured.Unstructured {
	result := old.DeepCopy()
	for _, list := range []string{"spec.containers", "spec.initContainers"} {
		sent := listAt(object.Object, list)
		for _, container := range listAt(result.Object, list) {
			for _, each := range sent {
				if each["name"] == container["name"] {
					putOrDelete(container, "resources", each["resources"])
				}
			}
		}
	}
	return result
}

// wanted is the part of an object whose changes the generation counts.
func (k *Kind) wanted(object *unstructured.Unstructured) map[string]any {
	part := map[string]any{}
	if !k.Custom {
		part["spec"] = object.Object["spec"]
		if _, has := object.Object["spec"]; has {
			return part
		}
	}
	for name, value := range object.Object {
		if name != "metadata" && !(name == "status" && k.Status) {
			part[name] = value
		}
	}
	return part
}

// finished reports whether nothing holds a deletion back any more.
func finished(object *unstructured.Unstructured) bool {
	if object.GetDeletionTimestamp() == nil || len(object.GetFinalizers()) > 0 {
		return false
	}
	grace := object.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// plainError is what clients get where the real server returns an error that it has no status for.
func plainError(why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: why,
	}}
}

func conflict(kind *Kind, key types.NamespacedName, why string) error {
	return apierrors.NewConflict(kind.resource(), key.Name, errors.New(why))
}

// suffix is what generateName appends, in the letters of the real one, and always the same for the same history.
func suffix(number uint64) string {
	const letters, length = "bcdfghjklmnpqrstvwxz2456789", 5
	var text strings.Builder
	number = number*2654435761 + 12345
	for range length {
		text.WriteByte(letters[number%uint64(len(letters))])
		number /= uint64(len(letters))
	}
	return text.String()
}

// Change is a patch as it is sent.
type Change struct {
	Type types.PatchType
	Data []byte
}

// conditions are the identity and the version that a patch demands, by a test or by its result.
func (c Change) conditions() (uid types.UID, version string) {
	if c.Type != types.JSONPatchType {
		var body struct{ Metadata metav1.ObjectMeta }
		if json.Unmarshal(c.Data, &body) != nil {
			return "", "" // It is refused.
		}
		return body.Metadata.UID, body.Metadata.ResourceVersion
	}
	var operations []struct {
		Op, Path string
		Value    any
	}
	if json.Unmarshal(c.Data, &operations) != nil {
		return "", ""
	}
	for _, operation := range operations {
		text, _ := operation.Value.(string)
		switch {
		case operation.Op != "test":
		case operation.Path == "/metadata/uid":
			uid = types.UID(text)
		case operation.Path == "/metadata/resourceVersion":
			version = text
		}
	}
	return uid, version
}

// Patch changes the latest state of an object, and returns it as it was stored. A resourceVersion in the result of the
// patch is a precondition, as it is in an update.
func (s *Server) Patch(at Target, change Change) (*unstructured.Unstructured, error) {
	return copied(s.patch(at, change))
}

func (s *Server) patch(at Target, change Change) (state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table, key, err := s.open(at)
	if err != nil {
		return state{}, err
	}
	if change.Type == types.StrategicMergePatchType && table.kind.Custom {
		return state{}, unsupported("the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
	}
	old := table.now(key)
	if old == nil {
		return state{}, apierrors.NewNotFound(table.kind.resource(), key.Name)
	}
	content, err := s.patched(table.kind, old, change)
	if err != nil {
		return state{}, err
	}
	object, err := s.formed(table.kind, &unstructured.Unstructured{Object: content})
	if err != nil {
		return state{}, unprocessable(err.Error())
	}
	if object.GetName() != key.Name || object.GetNamespace() != key.Namespace {
		return state{}, apierrors.NewBadRequest("the name or namespace of the object does not match the request")
	}
	return s.replace(table, at, old, object)
}

// patched returns the content that a patch makes of an object.
func (s *Server) patched(kind *Kind, old *unstructured.Unstructured, change Change) (map[string]any, error) {
	if content := mergedPlainly(old, change); content != nil {
		return content, nil
	}
	current, err := json.Marshal(old.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var result []byte
	switch change.Type {
	case types.JSONPatchType:
		result, err = patchJSON(current, change.Data)
	case types.MergePatchType:
		result, err = mergeJSON(current, change.Data)
	case types.StrategicMergePatchType:
		return s.mergeByType(kind, old, change.Data)
	case types.ApplyYAMLPatchType, types.ApplyCBORPatchType:
		return nil, unsupported("server-side apply is not simulated")
	default:
		return nil, unsupported("the body of the request was in an unknown format: " + string(change.Type))
	}
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(result, &content); err != nil {
		return nil, unprocessable(err.Error())
	}
	return content, nil
}

func patchJSON(current, data []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	result, err := operations.Apply(current)
	if err != nil {
		return nil, unprocessable(err.Error())
	}
	return result, nil
}

func mergeJSON(current, data []byte) ([]byte, error) {
	var body any
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	result, err := jsonpatch.MergePatch(current, data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return result, nil
}

// mergedPlainly carries out a merge patch that only sets values, as most do, without a detour through text. It returns
// nil for all others.
func mergedPlainly(old *unstructured.Unstructured, change Change) map[string]any {
	if change.Type != types.MergePatchType || bytes.Contains(change.Data, []byte("null")) {
		return nil
	}
	var changes map[string]any
	if utiljson.Unmarshal(change.Data, &changes) != nil || changes == nil {
		return nil
	}
	content := old.DeepCopy().Object
	lay(content, changes)
	return content
}

func lay(content, changes map[string]any) {
	for name, value := range changes {
		inner, isMap := value.(map[string]any)
		if below, ok := content[name].(map[string]any); ok && isMap {
			lay(below, inner)
			continue
		}
		content[name] = value
	}
}

func (s *Server) mergeByType(kind *Kind, old *unstructured.Unstructured, data []byte) (map[string]any, error) {
	typed, err := s.scheme.New(kind.GroupVersionKind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	changes := map[string]any{}
	if err := utiljson.Unmarshal(data, &changes); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	result, err := strategicpatch.StrategicMergeMapPatch(old.DeepCopy().Object, changes, typed)
	switch {
	case mergepatch.IsPreconditionFailed(err):
		return nil, unprocessable(err.Error())
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return result, nil
}

// unprocessable is the answer to a patch that does not fit the object. The real server has the same code and reason for
// it as for an object that breaks a rule.
func unprocessable(why string) error {
	return refusal(http.StatusUnprocessableEntity, why)
}

func unsupported(why string) error {
	return refusal(http.StatusUnsupportedMediaType, why)
}

func refusal(code int, why string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", why, 0, false)
}
