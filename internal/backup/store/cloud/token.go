package cloud

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"meridian.dev/meridian/internal/backup/store"
)

// tokens changes the key of a service account for tokens, each of which is good for an hour.
type tokens struct {
	mutex sync.Mutex
	key   string // What the token was made from.
	token string
	until time.Time
}

// serviceAccount is what Google's file says that we use.
type serviceAccount struct {
	Email    string `json:"client_email"`
	Key      string `json:"private_key"`
	KeyID    string `json:"private_key_id"`
	TokenURI string `json:"token_uri"`
}

// early is how long before its end a token is replaced.
const early = 5 * time.Minute

func (t *tokens) get(ctx context.Context, link *link) (string, error) {
	found, err := link.files.read(ServiceAccountFile)
	if err != nil {
		return "", err
	}
	key := found[ServiceAccountFile]
	if key == "" {
		return "", missing(ServiceAccountFile)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.key == key && time.Now().Before(t.until) {
		return t.token, nil
	}
	token, lasts, err := exchange(ctx, link, key)
	if err != nil {
		return "", err
	}
	t.key, t.token, t.until = key, token, time.Now().Add(lasts-early)
	return token, nil
}

// forget has the next request ask for a new token.
func (t *tokens) forget(token string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.token == token {
		t.token, t.until = "", time.Time{}
	}
}

func exchange(ctx context.Context, link *link, key string) (string, time.Duration, error) {
	refused := func(err error) error {
		return &store.Error{Class: store.CredentialsRefused, Doing: "understand " + ServiceAccountFile, Err: err}
	}
	var account serviceAccount
	if json.Unmarshal([]byte(key), &account) != nil || account.Email == "" {
		// What is wrong with it is not said: the text around it is a secret.
		return "", 0, refused(errors.New("it is no key of a service account"))
	}
	place, err := endpoint(account.TokenURI, "https://oauth2.googleapis.com/token")
	if err != nil {
		return "", 0, refused(errors.New("token_uri is no URL"))
	}
	assertion, err := account.sign(place.String(), time.Now())
	if err != nil {
		return "", 0, refused(err)
	}
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion},
	}
	answer, err := link.send(ctx, call{ //nolint:bodyclose // decode does.
		doing: "ask for a token", method: http.MethodPost, url: place, body: []byte(form.Encode()),
		header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		sign:   func(*http.Request, []byte) error { return nil },
	}, func(refused *refusal) store.Class {
		if refused.Status >= 400 && refused.Status < 500 && refused.Status != http.StatusTooManyRequests {
			return store.CredentialsRefused
		}
		return store.Away
	})
	if err != nil {
		return "", 0, err
	}
	var given struct {
		Token string  `json:"access_token"`
		Lasts float64 `json:"expires_in"`
	}
	if err := decodeJSON(answer, &given); err != nil || given.Token == "" {
		err = errors.New("there is none in the answer")
		return "", 0, &store.Error{Class: store.Away, Doing: "ask for a token", Err: err}
	}
	return given.Token, time.Duration(given.Lasts * float64(time.Second)), nil
}

// sign makes what Google calls a JWT.
func (a serviceAccount) sign(audience string, now time.Time) (string, error) {
	block, _ := pem.Decode([]byte(a.Key))
	if block == nil {
		return "", errors.New("private_key is no PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", errors.New("private_key cannot be read")
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return "", fmt.Errorf("private_key is a %T, not one of RSA", parsed)
	}
	var text string
	for _, part := range []map[string]any{
		{"alg": "RS256", "typ": "JWT", "kid": a.KeyID},
		{
			"iss": a.Email, "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
			"scope": "https://www.googleapis.com/auth/devstorage.read_write",
		},
	} {
		content, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		if text != "" {
			text += "."
		}
		text += base64.RawURLEncoding.EncodeToString(content)
	}
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errors.New("private_key cannot sign")
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
