package observe

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/internal/database"
)

// exceeded is how the API server says that a quota has no room: what is asked for, what is in use and how much there
// is, each as name=quantity pairs, of the resources that do not fit.
var exceeded = regexp.MustCompile(`exceeded quota: [^,]+, requested: (\S+), used: (\S+), limited: (\S+)`)

// resourceGrowth is how much more a new pod asks for than the one that it replaces.
type resourceGrowth struct {
	// Alone says that there is no pod that it replaces.
	Alone       bool
	CPU, Memory resource.Quantity
}

// growth compares the size of a pod that is there, nil for none, with that of the next one.
func growth(pod *database.Pod, size database.Size) resourceGrowth {
	if pod == nil {
		return resourceGrowth{Alone: true}
	}
	grows := resourceGrowth{CPU: size.CPU.DeepCopy(), Memory: size.Memory.DeepCopy()}
	grows.CPU.Sub(pod.CPU)
	grows.Memory.Sub(pod.Memory)
	return grows
}

// of is the growth in one resource of a quota.
func (g resourceGrowth) of(name string) resource.Quantity {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU:
		return g.CPU
	case corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory:
		return g.Memory
	default:
		return resource.Quantity{}
	}
}

// fitsQuota says that a refusal is that of a quota which has room for the new pod once the old one is gone. Words that
// cannot be read are a refusal.
func fitsQuota(refusal string, grows resourceGrowth) bool {
	words := exceeded.FindStringSubmatch(refusal)
	if words == nil || grows.Alone {
		return false
	}
	used, limited := quantities(words[2]), quantities(words[3])
	if len(limited) == 0 {
		return false
	}
	for name, limit := range limited {
		after, known := used[name]
		if !known {
			return false
		}
		after.Add(grows.of(name))
		if after.Cmp(limit) > 0 {
			return false
		}
	}
	return true
}

// quantities reads name=quantity pairs, nil if one of them is none.
func quantities(text string) map[string]resource.Quantity {
	found := map[string]resource.Quantity{}
	for _, pair := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return nil
		}
		found[name] = quantity
	}
	return found
}
