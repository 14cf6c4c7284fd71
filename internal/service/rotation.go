package service

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
)

// AnnotationRotation tells, on a Secret, which rotation was carried out last, or is under way.
const AnnotationRotation = "meridian.dev/rotation"

// Rotation is what is written down about a rotation, beside what it is about.
type Rotation struct {
	// Token is that of the spec, Number that of the credentials that are made ready.
	Token  string `json:"token,omitempty"`
	Number int64  `json:"number,omitempty"`
	// Began, Signs and Done are when it began, when the new authority began to sign, and when it was over.
	Began time.Time `json:"began,omitzero"`
	Signs time.Time `json:"signs,omitzero"`
	Done  time.Time `json:"done,omitzero"`
}

// UnderWay says that it has begun and is not over.
func (r Rotation) UnderWay() bool { return !r.Began.IsZero() && r.Done.IsZero() }

// Asked says that a token is a wish that was not begun with.
func (r Rotation) Asked(token string) bool { return token != "" && token != r.Token }

// Note writes it down on an object. One that never was leaves nothing.
func (r Rotation) Note(object metav1.Object) {
	if r == (Rotation{}) {
		return
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	// A struct of words, numbers and times can always be encoded.
	encoded, _ := json.Marshal(r)
	annotations[AnnotationRotation] = string(encoded)
	object.SetAnnotations(annotations)
}

// RotationOf reads what was written down. What cannot be read was not.
func RotationOf(object metav1.Object) Rotation {
	var rotation Rotation
	if json.Unmarshal([]byte(object.GetAnnotations()[AnnotationRotation]), &rotation) != nil {
		return Rotation{}
	}
	return rotation
}

// Status is what a user sees of it, nil if none was ever asked for.
func (r Rotation) Status() *v1alpha1.Rotation {
	if r.Token == "" {
		return nil
	}
	moment := func(at time.Time) *metav1.Time {
		if at.IsZero() {
			return nil
		}
		// The API keeps whole seconds: anything finer would be a change in each pass.
		return &metav1.Time{Time: at.UTC().Truncate(time.Second)}
	}
	return &v1alpha1.Rotation{Token: r.Token, Began: moment(r.Began), Signs: moment(r.Signs), Done: moment(r.Done)}
}
