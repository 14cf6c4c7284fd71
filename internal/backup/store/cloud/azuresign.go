package cloud

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"meridian.dev/meridian/internal/backup/store"
)

// azureVersion is that of the protocol. Empty fields of a signature depend on it.
const azureVersion = "2021-12-02"

var errNoBase64 = errors.New("it is not base64")

// sign adds a signature by the shared key, or the shared access signature.
func (a *azure) sign(request *http.Request, content []byte) error {
	found, err := a.files.read(AccountKeyFile, SignatureFile)
	if err != nil {
		return err
	}
	request.Header.Set("X-Ms-Version", azureVersion)
	request.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
	switch {
	case found[SignatureFile] != "":
		query := strings.TrimPrefix(found[SignatureFile], "?")
		if request.URL.RawQuery != "" {
			query = request.URL.RawQuery + "&" + query
		}
		request.URL.RawQuery = query
		return nil
	case found[AccountKeyFile] == "":
		return missing(AccountKeyFile + " and no " + SignatureFile)
	}
	key, err := base64.StdEncoding.DecodeString(found[AccountKeyFile])
	if err != nil {
		// The error would show where in the key it is wrong.
		return &store.Error{Class: store.CredentialsRefused, Doing: "understand " + AccountKeyFile, Err: errNoBase64}
	}
	signature := base64.StdEncoding.EncodeToString(mac(key, a.canonical(request, len(content))))
	request.Header.Set("Authorization", "SharedKey "+a.account+":"+signature)
	return nil
}

// canonical is what is signed.
func (a *azure) canonical(request *http.Request, size int) string {
	length := ""
	if size > 0 {
		length = strconv.Itoa(size)
	}
	header := request.Header
	lines := []string{request.Method, "", "", length, "", header.Get("Content-Type"), "", "", "",
		header.Get("If-None-Match"), "", ""}
	var own []string
	for name, values := range header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			own = append(own, name+":"+strings.Join(values, ","))
		}
	}
	slices.Sort(own)
	lines = append(append(lines, own...), "/"+a.account+request.URL.EscapedPath())
	query, _ := url.ParseQuery(request.URL.RawQuery)
	var asked []string
	for name, values := range query {
		asked = append(asked, strings.ToLower(name)+":"+strings.Join(values, ","))
	}
	slices.Sort(asked)
	return strings.Join(append(lines, asked...), "\n")
}
