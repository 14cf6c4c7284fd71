package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"
)

// encode writes compact JSON in the order of the fields, without the escapes that only a browser needs.
func encode(message any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(message); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// hash is over the canonical JSON, never over a print of the Go value: that would change with the compiler.
func hash(message any) string {
	document, err := encode(message)
	if err != nil {
		// Structs of strings, numbers and lists always encode.
		panic(fmt.Sprintf("encode %T: %v", message, err))
	}
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

// decode looks at the version before anything else, so that a newer message is refused for being newer and not for
// the first field that happens to be unknown.
//
//nolint:unparam // The messages have versions of their own, which happen to be the same today.
func decode(document []byte, version int, into any) error {
	return read(document, version, into, kjson.DisallowUnknownFields, kjson.DisallowDuplicateFields)
}

// hear reads what is only told and not obeyed, and passes over fields that it does not know.
func hear(document []byte, version int, into any) error {
	return read(document, version, into, kjson.DisallowDuplicateFields)
}

func read(document []byte, version int, into any, strictness ...kjson.StrictOption) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(document, &head); err != nil {
		return err
	}
	if head.Version != version {
		return fmt.Errorf("version: is %d, and this program knows %d", head.Version, version)
	}
	strict, err := kjson.UnmarshalStrict(document, into, strictness...)
	return errors.Join(append(strict, err)...)
}
