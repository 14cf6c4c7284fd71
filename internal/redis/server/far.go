package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/wire"
)

// farPatience bounds a question to the server of another copy.
const farPatience = 2 * time.Second

// far keeps the connection to the server that was asked last.
type far struct {
	mutex  sync.Mutex
	at     place
	client *client.Client
}

// place is where a server is, and as whom one asks it.
type place struct{ address, user, secret string }

// Far implements redis.Link. All passwords that count are tried: the other one may not have seen the new one yet.
func (l *Link) Far(upstream wire.Member, host string, logins redis.Logins, tell func(int64, error)) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), farPatience)
		defer cancel()
		var offset int64
		var err error
		for _, secret := range logins.Replication {
			at := place{net.JoinHostPort(host, strconv.Itoa(l.Port)), replicaUser(upstream.Incarnation), secret}
			if offset, err = l.askFar(ctx, at); !isUnasked(err) {
				break
			}
		}
		if isUnasked(err) {
			err = redis.ErrUnasked
		}
		tell(offset, err)
	}()
}

// askFar asks one server.
func (l *Link) askFar(ctx context.Context, at place) (int64, error) {
	l.far.mutex.Lock()
	defer l.far.mutex.Unlock()
	if l.far.client == nil || l.far.at != at {
		l.far.close()
		l.far.at, l.far.client = at, l.openFar(at)
	}
	answer, err := l.far.client.Do(ctx, "role").Slice()
	if err != nil {
		l.far.close()
		return 0, fmt.Errorf("ask the primary how far it has come: %w", err)
	}
	if len(answer) < 2 || answer[0] != "master" {
		return 0, errors.New("ask the primary how far it has come: it is none")
	}
	offset, ok := answer[1].(int64)
	if !ok {
		return 0, fmt.Errorf("ask the primary how far it has come: it says %v", answer[1])
	}
	return offset, nil
}

func (f *far) close() {
	if f.client != nil {
		_ = f.client.Close()
		f.client = nil
	}
}

// openFar makes the client, which connects when it is used.
func (l *Link) openFar(at place) *client.Client {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, VerifyConnection: l.trusts}
	trust.InsecureSkipVerify = true // It is trusts that verifies.
	return client.NewClient(&client.Options{
		Network: "tcp", Addr: at.address, Username: at.user, Password: at.secret,
		Protocol: 2, DisableIdentity: true, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		TLSConfig:                trust,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// trusts looks whether a server has a certificate of the cache's authority, as the server itself does when it follows:
// which copy it has is told by whom it lets in, and pods have no names of their own in their certificates.
func (l *Link) trusts(state tls.ConnectionState) error {
	authority, err := os.ReadFile(filepath.Join(l.Runtime, render.TLSFolder, wire.KeyAuthority))
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) || len(state.PeerCertificates) == 0 {
		return errors.New("there is no authority, or no certificate")
	}
	between := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// isUnasked tells the word of a server that does not let this question in from everything else that can go wrong.
func isUnasked(err error) bool {
	var said client.Error
	return errors.As(err, &said) && (client.HasErrorPrefix(err, "NOPERM") || client.HasErrorPrefix(err, "WRONGPASS"))
}
