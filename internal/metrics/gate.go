package metrics

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Gate lets those see figures whom the API server knows by the token that they bring, and who have the right to get the
// path: the figures of the operator name every tenant. It remembers verdicts for a while, so that a scrape costs the
// API server next to nothing, and asks about few callers at once.
type Gate struct {
	Tokens authenticationclient.TokenReviewInterface
	Rights authorizationclient.SubjectAccessReviewInterface
	Now    func() time.Time

	mutex    sync.Mutex
	verdicts map[[sha256.Size]byte]verdict
	asking   int
}

// verdict is the status that a caller is answered with, and how long that is so.
type verdict struct {
	status int
	until  time.Time
}

const (
	// allowedLasts is also how long a right that was taken away still holds here, refusedLasts how long one that was given
	// does not yet.
	allowedLasts, refusedLasts = time.Minute, 10 * time.Second
	// mostVerdicts and mostAsking bound what strangers cost.
	mostVerdicts, mostAsking = 256, 4
	gatePatience             = 5 * time.Second
)

// Wrap puts the gate before a handler.
func (g *Gate) Wrap(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		token, found := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
		if !found || token == "" || request.Method != http.MethodGet {
			http.Error(out, "bring the token of an account that may get "+request.URL.Path, http.StatusUnauthorized)
			return
		}
		if status := g.judge(request.Context(), token, request.URL.Path); status != http.StatusOK {
			http.Error(out, http.StatusText(status), status)
			return
		}
		inner.ServeHTTP(out, request)
	})
}

func (g *Gate) judge(ctx context.Context, token, path string) int {
	key := sha256.Sum256([]byte(path + "\x00" + token))
	g.mutex.Lock()
	if known, found := g.verdicts[key]; found && g.Now().Before(known.until) {
		g.mutex.Unlock()
		return known.status
	}
	if g.asking >= mostAsking {
		g.mutex.Unlock()
		return http.StatusTooManyRequests
	}
	g.asking++
	g.mutex.Unlock()

	status, err := g.ask(ctx, token, path)

	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.asking--
	if err != nil {
		return http.StatusServiceUnavailable
	}
	g.remember(key, status)
	return status
}

// remember keeps the newest verdicts: when there are too many, all of before go.
func (g *Gate) remember(key [sha256.Size]byte, status int) {
	if g.verdicts == nil || len(g.verdicts) >= mostVerdicts {
		g.verdicts = map[[sha256.Size]byte]verdict{}
	}
	lasts := refusedLasts
	if status == http.StatusOK {
		lasts = allowedLasts
	}
	g.verdicts[key] = verdict{status: status, until: g.Now().Add(lasts)}
}

// ask has the API server say who it is, and whether that one may.
func (g *Gate) ask(ctx context.Context, token, path string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, gatePatience)
	defer cancel()
	who, err := g.Tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("ask whose token it is: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := g.Rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("ask whether %s may get %s: %w", user.Username, path, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
