package admit

import (
	"fmt"
	"regexp"

	"meridian.dev/meridian/api/v1alpha1"
)

// imageName is the form of a reference: an optional host, a path in lower case, an optional tag and an optional digest.
var imageName = regexp.MustCompile(`^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*` +
	`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

func judgeImage(image string) []Problem {
	if image == "" || imageName.MatchString(image) {
		return nil
	}
	return []Problem{{"spec.image", fmt.Sprintf("%q is not the name of an image; write it as in "+
		"registry.example/geo/postgis:17", image)}}
}

func refuseOddImage(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	return judgeImage(database.Spec.Image)
}
