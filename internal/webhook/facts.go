package webhook

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/admit"
	nouns "meridian.dev/meridian/internal/database"
)

const (
	defaultClass = "storageclass.kubernetes.io/is-default-class"

	// factsLimit is how long a user waits for facts at most. What is not known by then is not judged.
	factsLimit = time.Second
)

// factReader reads what the rules want to know about the cluster.
type factReader struct{ reader client.Reader }

// read never fails: a source that does not answer leaves its fact unknown.
func (f factReader) read(ctx context.Context, database types.NamespacedName) admit.Facts {
	ctx, cancel := context.WithTimeout(ctx, factsLimit)
	defer cancel()
	facts := admit.Facts{Now: time.Now()}
	var classes storagev1.StorageClassList
	if err := f.reader.List(ctx, &classes); err == nil {
		facts.Classes = ClassFacts(classes.Items)
	}
	var claims corev1.PersistentVolumeClaimList
	err := f.reader.List(ctx, &claims, client.InNamespace(database.Namespace),
		client.MatchingLabels{nouns.LabelDatabase: database.Name})
	if err != nil {
		facts.Classes = nil // Whether a class must exist depends on the claims.
		return facts
	}
	facts.Claims = ClaimFacts(database.Name, claims.Items)
	return facts
}

// ClassFacts says about storage classes what the rules need to know.
func ClassFacts(classes []storagev1.StorageClass) []admit.StorageClass {
	facts := make([]admit.StorageClass, 0, len(classes))
	for _, class := range classes {
		facts = append(facts, admit.StorageClass{
			Name:       class.Name,
			Default:    class.Annotations[defaultClass] == "true",
			Expandable: class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion,
		})
	}
	return facts
}

// ClaimFacts says about the claims of a database what the rules need to know. A claim is recognised by its name, as the
// loop does that makes it: labels can be changed by anybody. Other claims that bear the database's label do not count.
func ClaimFacts(database string, claims []corev1.PersistentVolumeClaim) []admit.Claim {
	var facts []admit.Claim
	for _, claim := range claims {
		instance, wal := nouns.ClaimOwner(claim.Name)
		if _, ours := nouns.SerialOf(database, instance); !ours {
			continue
		}
		fact := admit.Claim{
			Name: claim.Name, Size: claim.Spec.Resources.Requests[corev1.ResourceStorage], WAL: wal,
		}
		if claim.Spec.StorageClassName != nil {
			fact.Class = *claim.Spec.StorageClassName
		}
		facts = append(facts, fact)
	}
	return facts
}
