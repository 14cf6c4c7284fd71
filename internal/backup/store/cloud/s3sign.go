package cloud

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// sign adds a signature of version 4, of the content too: what arrives is what was sent, over plain HTTP as well.
func (s *s3) sign(request *http.Request, content []byte) error {
	found, err := s.files.read(AccessKeyIDFile, SecretAccessKeyFile, SessionTokenFile)
	if err != nil {
		return err
	}
	id, secret := found[AccessKeyIDFile], found[SecretAccessKeyFile]
	if id == "" || secret == "" {
		return missing(AccessKeyIDFile + " or no " + SecretAccessKeyFile)
	}
	now := time.Now().UTC()
	sum := payload(request, content)
	request.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	request.Header.Set("X-Amz-Content-Sha256", sum)
	if token := found[SessionTokenFile]; token != "" {
		request.Header.Set("X-Amz-Security-Token", token)
	}
	names, headers := canonicalHeaders(request)
	canonical := strings.Join([]string{
		request.Method, request.URL.EscapedPath(), request.URL.RawQuery, headers, names, sum,
	}, "\n")
	scope := now.Format("20060102") + "/" + s.region + "/s3/aws4_request"
	hashed := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{
		"AWS4-HMAC-SHA256", now.Format("20060102T150405Z"), scope, hex.EncodeToString(hashed[:]),
	}, "\n")
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+id+"/"+scope+", SignedHeaders="+names+
		", Signature="+hex.EncodeToString(mac(key, text)))
	return nil
}

// payload is the checksum of the content. Where it is sent as a header too it was made a moment ago, of the same bytes:
// a second time costs a base backup a second of processor time for each GiB.
func payload(request *http.Request, content []byte) string {
	known, err := base64.StdEncoding.DecodeString(request.Header.Get(checksumHeader))
	if err == nil && len(known) == sha256.Size {
		return hex.EncodeToString(known)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(text))
	return hash.Sum(nil)
}

// canonicalHeaders are those that are signed: the host, the conditions and everything of the protocol.
func canonicalHeaders(request *http.Request) (names, lines string) {
	values := map[string]string{"host": request.URL.Host}
	for name, value := range request.Header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-amz-") || name == "if-none-match" {
			values[name] = strings.TrimSpace(strings.Join(value, ","))
		}
	}
	var sorted []string
	for name := range values {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	var text strings.Builder
	for _, name := range sorted {
		text.WriteString(name + ":" + values[name] + "\n")
	}
	return strings.Join(sorted, ";"), text.String()
}
