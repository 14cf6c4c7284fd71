// Package access decides about certificates and passwords: that there are some, who is told of them, and how they are
// replaced while applications work.
//
// Start reading at KeepCertificates.
package access
