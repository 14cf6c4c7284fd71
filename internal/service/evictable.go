package service

import "strings"

// annotationEvictable tells an autoscaler which volumes of a pod are nothing to keep a node for.
const annotationEvictable = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// Evictable names the empty directories of a pod in its annotations: a node with one would never be given back. What is
// on them ends with every pod anyway. A user who says otherwise is right.
func Evictable(annotations map[string]string, volumes ...string) {
	if _, said := annotations[annotationEvictable]; !said {
		annotations[annotationEvictable] = strings.Join(volumes, ",")
	}
}
