package lives

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/lives/sloppy"
)

// Flaw is a mistake put into the operator on purpose: one that people really make.
type Flaw struct {
	Name string
	// Parts changes what the operator is put together from.
	Parts func(*parts)
	// Around changes how its loops are run.
	Around func(reconcile.Reconciler) reconcile.Reconciler
	// Lives are the names of those in which it is looked for, Phases what is tried in them.
	Lives  []string
	Phases []string
	// Blind are rules that see only the means: without them the consequence must show.
	Blind []rule.Rule
}

// Flaws are all of them.
func Flaws() []Flaw {
	return slices.Concat(beliefs(), oversights(), deeds(), habits(), trialFlaws(), cacheFlaws())
}

// oversights are wishes that nobody reads, and duties that nobody does: all stays as it was, and is said to be well.
func oversights() []Flaw {
	return []Flaw{
		{Name: "the memory of instances is not read", Lives: []string{"more memory for instances"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Resources.Memory = nil })},
		{Name: "a restart is not read", Lives: []string{"a restart"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Restart = "" })},
		{Name: "a parameter waits for ever", Lives: []string{"a parameter that takes a start"},
			Parts: func(p *parts) { p.agents.content = true }},
		{Name: "parameters are not read", Lives: []string{"another parameter"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Parameters = nil })},
		{Name: "hibernation of a database is not read", Lives: []string{"hibernate and wake"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Hibernated = false })},
		{Name: "hibernation is not read by a cache that is woken", Lives: []string{"a cache hibernates and wakes"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Hibernated = false })},
		{Name: "the policy of a cache is not read", Lives: []string{"another policy"},
			Parts: sees(func(object *v1alpha1.GeoCache) { object.Spec.EvictionPolicy = "allkeys-lru" })},
		{Name: "a cache is not bound to its database", Lives: []string{"a cache follows its database"},
			Parts: sees(func(object *v1alpha1.GeoCache) { object.Spec.FollowDatabase = false })},
		{Name: "certificates of a cache are not renewed", Lives: []string{"certificates of a cache end"},
			Parts: neverPatches(secretKind.Kind)},
		{Name: "Services are not repaired", Lives: []string{"children are spoilt"}, Parts: neverPatches("Service")},
	}
}

// neverPatches takes every patch of a kind for done.
func neverPatches(kind string) func(*parts) {
	return writes(func(s *sloppy.Client) {
		s.OnPatch = func(ctx context.Context, object client.Object, p client.Patch, o ...client.PatchOption) error {
			if kube.KindOf(object).Kind == kind {
				return nil
			}
			return s.Client.Patch(ctx, object, p, o...)
		}
	})
}

// beliefs are mistakes in what is observed.
func beliefs() []Flaw {
	return []Flaw{
		{Name: "reclaim is not read", Lives: []string{"scale down and keep"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete })},
		{Name: "the last word on reclaim comes too late", Lives: []string{"deleted, and then kept"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete })},
		{Name: "pause is not read", Lives: []string{"paused"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Paused = false })},
		{Name: "who is no longer wanted counts as gone", Lives: []string{"scale down"},
			Parts: forgetsMembers(citizens)},
		{Name: "a lost claim is made again, empty", Lives: []string{"a claim is lost"}, Parts: forgetsLostMembers},
		{Name: "the claims of a dead database are not seen", Lives: []string{"deleted with all"},
			Parts: sees(func(claim *corev1.PersistentVolumeClaim) { claim.Annotations = nil })},
		{Name: "a lost claim of a log is made again, empty", Lives: []string{"the claim of a log is lost"},
			Parts: forgetsLostMembers},
		{Name: "the claims of the logs of a dead database are not seen", Lives: []string{"deleted with its logs"},
			Parts: sees(func(claim *corev1.PersistentVolumeClaim) {
				if _, log := database.ClaimOwner(claim.Name); log {
					claim.Annotations = nil
				}
			})},
		{Name: "every node that is away is lost at once", Lives: []string{"a node is away for a minute"},
			Parts: func(p *parts) { p.lostAfter = -time.Second }},
		{Name: "an error is taken for absence", Lives: []string{"create one", "another parameter", "the lease is lost"},
			Parts: func(p *parts) { p.live = &sloppy.Client{Client: p.live, OnFailed: takenForAbsence} }},
		{Name: "a roll does not wait for the last one", Lives: []string{"another image"}, Parts: seesAllWell},
		{Name: "a roll takes the primary as it comes", Lives: []string{"another image"}, Parts: seesNoPrimary},
		{Name: "a maintenance window that is always open", Lives: []string{"another version of the operator"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) {
				object.Spec.Maintenance = &v1alpha1.Maintenance{Window: "daily 00:00-24:00", TimeZone: "UTC"}
			})},
		{Name: "two steps for one filling", Lives: []string{"a volume fills"},
			Phases: []string{search.Answers, search.OtherOrders}, Parts: func(p *parts) { p.agents.percents = true }},
		{Name: "a login is published before it is known", Lives: []string{"another password"},
			Parts: func(p *parts) { p.agents.eager = true }},
		{Name: "a password is made in every pass", Lives: []string{"another password"}, Parts: forgetsNextLogin},
		{Name: "a new authority signs before applications know it", Lives: []string{"other certificates"},
			Parts: forgetsApplications},
		{Name: "a server shrinks by order", Lives: []string{"less memory"}, Parts: func(p *parts) { p.agents.obeys = true }},
	}
}

// seesAllWell takes every pod that is there for one whose server works.
func seesAllWell(p *parts) {
	sees(func(pod *corev1.Pod) {
		if !kube.Ready(pod) && pod.DeletionTimestamp == nil {
			kube.SetReady(pod, corev1.ConditionTrue)
			pod.Status.PodIP = nowhere + instanceOf(pod)
		}
	})(p)
	p.agents.rosy = true
}

// nowhere begins an address at which nobody answers, and which is believed to answer all the same.
const nowhere = "nowhere/"

// seesNoPrimary takes the first instance that is not the primary for the primary.
func seesNoPrimary(p *parts) {
	sees(func(lease *coordinationv1.Lease) {
		record, err := recordOf(lease)
		if err != nil || len(record.Members) < 3 {
			return
		}
		for _, member := range record.Members {
			if name := member.String(); holderOf(lease) != member {
				lease.Spec.HolderIdentity = &name
				return
			}
		}
	})(p)
	p.agents.rosy = true
}

// forgetsMembers shows a record without those that the settings no longer name.
func forgetsMembers(of folk) func(*parts) {
	return func(p *parts) {
		cluster := p.agents.cluster
		sees(func(lease *coordinationv1.Lease) {
			wanted := of.read(context.Background(), cluster).Instances
			keepMembers(lease, func(member wire.Member) bool { return slices.Contains(wanted, member.Name) })
		})(p)
	}
}

// forgetsLostMembers shows a record without those whose claim is gone, and claims as if nobody had deleted them.
func forgetsLostMembers(p *parts) {
	cluster := p.agents.cluster
	sees(func(claim *corev1.PersistentVolumeClaim) { claim.DeletionTimestamp = nil })(p)
	sees(func(lease *coordinationv1.Lease) {
		keepMembers(lease, func(member wire.Member) bool {
			found, err := kube.Get(context.Background(), cluster, member.Name, &corev1.PersistentVolumeClaim{})
			if found && strings.Contains(member.Incarnation, "/") { // Its log has a volume of its own.
				log := database.LogClaimName(member.Name)
				found, err = kube.Get(context.Background(), cluster, log, &corev1.PersistentVolumeClaim{})
			}
			return found || err != nil
		})
	})(p)
}

func keepMembers(lease *coordinationv1.Lease, keep func(wire.Member) bool) {
	record, err := recordOf(lease)
	if err != nil || record.Term == 0 {
		return
	}
	record.Members = slices.DeleteFunc(record.Members, func(member wire.Member) bool { return !keep(member) })
	record.W = min(record.W, len(record.Members))
	if text, err := record.Encode(); err == nil {
		lease.Annotations[wire.AnnotationRecord] = text
	}
}

func takenForAbsence(err error) error {
	if apierrors.IsTimeout(err) {
		return apierrors.NewNotFound(schema.GroupResource{}, "it")
	}
	return err
}

// deeds are mistakes in what is written.
func deeds() []Flaw {
	return []Flaw{
		{Name: "deletes without preconditions", Lives: []string{"scale down"}, Parts: writes(func(s *sloppy.Client) {
			s.OnRemove = func(ctx context.Context, object client.Object, _ ...client.DeleteOption) error {
				return s.Client.Delete(ctx, object)
			}
		})},
		{Name: "patches whatever is there", Lives: []string{"another parameter"}, Parts: writes(func(s *sloppy.Client) {
			s.OnPatch = func(ctx context.Context, object client.Object, p client.Patch, o ...client.PatchOption) error {
				return s.Client.Patch(ctx, object, unconditional(object, p), o...)
			}
		})},
		{Name: "takes over whatever has the name", Lives: []string{"a name is taken"}, Parts: takesOver},
		{Name: "claims belong to the database", Lives: []string{"deleted and kept"}, Parts: ownsClaims},
		{Name: "the status is written with the spec", Lives: []string{"scale up and think again"},
			Phases: []string{search.StaleReads, search.OtherOrders, search.LateCalls}, Blind: []rule.Rule{law.Conditional,
				law.Allowed},
			Parts: writesAll},
		{Name: "the finalizer goes first", Lives: []string{"deleted with all"}, Parts: releasesFirst},
		{Name: "a timeout is taken for done", Lives: []string{"create one"}, Parts: writes(func(s *sloppy.Client) {
			s.OnCreate = func(ctx context.Context, object client.Object, o ...client.CreateOption) error {
				if err := s.Client.Create(ctx, object, o...); !apierrors.IsTimeout(err) {
					return err
				}
				return nil
			}
		})},
	}
}

// unconditional is a patch without its tests and its version.
func unconditional(object client.Object, patch client.Patch) client.Patch {
	data, err := patch.Data(object)
	if err != nil {
		return patch
	}
	if patch.Type() == types.JSONPatchType {
		var operations []map[string]any
		if json.Unmarshal(data, &operations) != nil {
			return patch
		}
		operations = slices.DeleteFunc(operations, func(each map[string]any) bool { return each["op"] == "test" })
		data, _ = json.Marshal(operations)
		return client.RawPatch(patch.Type(), data)
	}
	var body map[string]any
	if json.Unmarshal(data, &body) != nil {
		return patch
	}
	if metadata, ok := body["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
	}
	data, _ = json.Marshal(body)
	return client.RawPatch(patch.Type(), data)
}

// takesOver creates or updates: what is there already is made ours, whoever it was.
func takesOver(p *parts) {
	writes(func(s *sloppy.Client) {
		s.OnCreate = func(ctx context.Context, object client.Object, o ...client.CreateOption) error {
			err := s.Client.Create(ctx, object, o...)
			if !apierrors.IsAlreadyExists(err) {
				return err
			}
			return s.Client.Update(ctx, object)
		}
	})(p)
	lie := func(service *corev1.Service) {
		if service.Annotations[stranger] != "" && service.Name == database.ReadName(Cities.Name) {
			service.OwnerReferences = nil
			metav1.SetMetaDataAnnotation(&service.ObjectMeta, database.AnnotationOwner, uidOf(p.agents.cluster))
		}
	}
	sees(lie)(p)
}

func uidOf(cluster client.Client) string {
	object, err := databaseOf(cluster)
	if err != nil {
		return ""
	}
	return string(object.UID)
}

// ownsClaims has the garbage collector care for claims.
func ownsClaims(p *parts) {
	cluster := p.agents.cluster
	sees(func(object *v1alpha1.GeoDatabase) {
		if object.DeletionTimestamp == nil {
			return
		}
		var list corev1.PersistentVolumeClaimList
		if cluster.List(context.Background(), &list, client.InNamespace(space)) != nil {
			return
		}
		for i := range list.Items {
			claim := &list.Items[i]
			if claim.Annotations[stranger] == "" && len(claim.OwnerReferences) == 0 {
				claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(object, databaseKind)}
				_ = cluster.Update(context.Background(), claim)
			}
		}
	})(p)
}

// writesAll writes the whole object as it was read, where only the status is meant.
func writesAll(p *parts) {
	p.client = &sloppy.Client{Client: p.client, OnStatus: func(client.SubResourceWriter) client.SubResourceWriter {
		return wholeWriter{SubResourceWriter: p.agents.cluster.Status(), cluster: p.agents.cluster}
	}}
}

type wholeWriter struct {
	client.SubResourceWriter
	cluster client.Client
}

func (w wholeWriter) Patch(
	ctx context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption,
) error {
	var now v1alpha1.GeoDatabase
	if err := w.cluster.Get(ctx, client.ObjectKeyFromObject(object), &now); err != nil {
		return err
	}
	wanted := object.(*v1alpha1.GeoDatabase)
	now.Spec = wanted.Spec
	if err := w.cluster.Update(ctx, &now); err != nil {
		return err
	}
	now.Status = wanted.Status
	if err := w.cluster.Status().Update(ctx, &now); err != nil {
		return err
	}
	wanted.ResourceVersion = now.ResourceVersion
	return nil
}

// releasesFirst lets a deleted database go as soon as it is seen.
func releasesFirst(p *parts) {
	cluster := p.agents.cluster
	sees(func(object *v1alpha1.GeoDatabase) {
		if object.DeletionTimestamp == nil {
			return
		}
		fresh := object.DeepCopy()
		fresh.Finalizers = nil
		_ = cluster.Update(context.Background(), fresh)
	})(p)
}

// habits are mistakes in how a loop is run.
func habits() []Flaw {
	return []Flaw{
		{Name: "errors are logged and forgotten", Lives: []string{"create one"},
			Around: func(inner reconcile.Reconciler) reconcile.Reconciler {
				return reconciler(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
					result, _ := inner.Reconcile(ctx, request)
					return result, nil
				})
			}},
		{Name: "waits for events only", Lives: []string{"switchover", "more memory"},
			Around: func(inner reconcile.Reconciler) reconcile.Reconciler {
				return reconciler(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
					_, err := inner.Reconcile(ctx, request)
					return reconcile.Result{}, err
				})
			}},
		{Name: "the clock is part of what is wanted", Lives: []string{"another parameter"}, Parts: func(p *parts) {
			now := p.now
			sees(func(object *v1alpha1.GeoDatabase) {
				object.Spec.Parameters = map[string]v1alpha1.Setting{
					"work_mem": v1alpha1.Setting(strconv.FormatInt(now().Unix()%1000+64, 10) + "kB"),
				}
			})(p)
		}},
		{Name: "a pod without containers yet is a panic, which heals", Lives: []string{"a replica ends"},
			Parts: sees(func(pod *corev1.Pod) {
				if pod.Status.ContainerStatuses[0].Name == "" {
					pod.Status.PodIP = ""
				}
			})},
		{Name: "children are counted from the cache", Lives: []string{"scale up", "scale up and think again"},
			Phases: []string{search.Answers, search.StaleReads, search.Crashes},
			Parts:  func(p *parts) { p.tracker = nil; p.live = p.client }},
	}
}

// cacheFlaws are mistakes that are made with caches, and with databases that have some.
func cacheFlaws() []Flaw {
	return []Flaw{
		{Name: "nobody looks whether a cache follows", Lives: []string{"a cache ends with its database"},
			Parts: sees(func(object *v1alpha1.GeoCache) { object.Spec.FollowDatabase = false })},
		{Name: "every cache follows its database", Lives: []string{"a cache goes on without its database"},
			Parts: sees(func(object *v1alpha1.GeoCache) { object.Spec.FollowDatabase = true })},
		{Name: "only the garbage collector ends a cache", Lives: []string{"a cache ends with its database"},
			Parts: writes(func(s *sloppy.Client) {
				s.OnRemove = func(ctx context.Context, object client.Object, o ...client.DeleteOption) error {
					if _, self := object.(*v1alpha1.GeoCache); self {
						return nil
					}
					return s.Client.Delete(ctx, object, o...)
				}
			})},
		{Name: "hibernation is not read", Lives: []string{"a cache hibernates"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Hibernated = false })},
		{Name: "who is no longer wanted in a cache counts as gone", Lives: []string{"replicas of a cache, and fewer"},
			Parts: forgetsMembers(tilers)},
		{Name: "a roll of a cache does not wait for the last one", Lives: []string{"another image of a cache"},
			Parts: seesAllWell},
		{Name: "the image of a cache is not read", Lives: []string{"another image of a cache"},
			Parts: sees(func(object *v1alpha1.GeoCache) { object.Spec.Image = "" })},
		{Name: "a lost lease is made again at once", Lives: []string{"the lease of a cache is lost"},
			Parts: sees(forgetsTheLease)},
		{Name: "a lost lease is never made again", Lives: []string{"the lease of a cache is lost, and then its pod"},
			Parts: writes(func(s *sloppy.Client) {
				s.OnCreate = func(ctx context.Context, object client.Object, o ...client.CreateOption) error {
					if object.GetName() == cache.LeaseName(Tiles.Name) {
						return nil
					}
					return s.Client.Create(ctx, object, o...)
				}
			})},
		{Name: "the keys of a cache outlive it", Lives: []string{"a cache comes and goes"},
			Parts: sees(func(secret *corev1.Secret) { delete(secret.Annotations, database.AnnotationBound) })},
		{Name: "a second cache takes the place of the first", Lives: []string{"a cache comes, and a second one"},
			Parts: sees(func(object *v1alpha1.GeoCache) {
				if object.Name == "tiles" {
					object.Spec.DatabaseRef.Name = "another"
				}
			})},
		{Name: "a cache that is made again keeps its first password", Lives: []string{
			"a cache is made again with another password"},
			Parts: sees(func(secret *corev1.Secret) {
				if uri, found := secret.Data[wire.KeyURI]; found && string(uri) == "third" {
					secret.Data[wire.KeyURI] = []byte("first")
				}
			})},
		{Name: "the Secret for applications is written as a whole", Lives: []string{"a cache comes"},
			Blind: []rule.Rule{law.Conditional, law.Allowed}, Parts: writes(func(s *sloppy.Client) {
				s.OnPatch = func(ctx context.Context, object client.Object, p client.Patch, o ...client.PatchOption) error {
					secret, ok := object.(*corev1.Secret)
					if !ok || secret.Name != database.AppSecretName(Cities.Name) {
						return s.Client.Patch(ctx, object, p, o...)
					}
					secret.Data[wire.KeyURI] = []byte("with a new password")
					return s.Client.Update(ctx, secret)
				}
			})},
	}
}

// forgetsTheLease reads settings that name no lease.
func forgetsTheLease(stored *corev1.ConfigMap) {
	if stored.Name != cache.SettingsName(Tiles.Name) {
		return
	}
	settings, err := wire.DecodeCacheSettings([]byte(stored.Data[wire.KeySettings]))
	if err != nil {
		return
	}
	settings.LeaseUID = ""
	if text, err := settings.Encode(); err == nil {
		stored.Data[wire.KeySettings] = string(text)
	}
}
