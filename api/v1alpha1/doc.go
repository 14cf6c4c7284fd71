// Package v1alpha1 is the API of Meridian as a user writes it: GeoDatabase and GeoCache, group meridian.dev.
//
// It holds types, defaults and validation rules, and no logic: who imports it gets apimachinery and nothing else. The
// field comments are the user documentation; docs/reference/api.md is made from them. Start reading at GeoDatabaseSpec.
//
// Every rule says in its message which field it is about and what to do instead, because the message is all that a user
// of kubectl gets to see. Validation that needs more than the object itself lives in internal/webhook.
//
// +kubebuilder:object:generate=true
// +groupName=meridian.dev
package v1alpha1
