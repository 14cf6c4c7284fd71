//go:build cluster

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/e2e/checks"
	"meridian.dev/meridian/test/e2e/traffic"
)

// TestRotation rotates the password and the certificates of a database under traffic. Applications check the server's
// name and authority all the time, by the bundle in their Secret, which they get to see a while after it has changed;
// half of them log in as the Secret says, half as it said in the beginning. Nobody may notice.
func TestRotation(t *testing.T) {
	if *rollingChanges != "all" {
		t.Skip("it takes minutes; -changes=all does it")
	}
	build(connect(t))
	f := newFailover(t)
	first := f.secret()
	pods, starts, term := f.podUIDs(), f.serverStarts(), f.leaseTerm(t.Context())
	mounted := f.mount(first)
	follow := traffic.Start(t.Context(), traffic.Config{
		Connect: f.connect, Prepare: mounted.prepare(true), Fresh: 2, Long: 2, Registers: 1, Patience: 2 * time.Second,
	})
	stay := traffic.Start(t.Context(), traffic.Config{
		Connect: f.connect, Prepare: mounted.prepare(false), Fresh: 2, Long: 2, Registers: 1, Patience: 2 * time.Second,
		Apart: 1 << 48,
	})
	begun := time.Now()
	f.patch(`{"spec":{"rotate":{"password":"one","certificates":"one","overlap":"10s"}}}`)
	f.awaitRotation("the password", begun, password, "one")
	f.awaitRotation("the certificates", begun, certificates, "one")
	time.Sleep(mountDelay + time.Second)
	if err := f.readSecret(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.judgeTraffic("applications that read their Secret", follow)
	f.judgeTraffic("applications that do not", stay)

	second := f.secret()
	f.judgeSecrets(first, second)
	for _, instance := range f.instances() {
		for name, login := range map[string]*corev1.Secret{"the former": first, "the new": second} {
			if err := f.logIn(f.pod(instance).Status.PodIP, login, second); err != nil {
				t.Errorf("%s login is refused by %s: %v", name, instance, err)
			}
		}
	}
	f.judgeOwner(second)

	begun = time.Now()
	f.patch(`{"spec":{"rotate":{"password":"two"}}}`)
	f.awaitRotation("the password", begun, password, "two")
	third := f.secret()
	for name, judged := range map[string]struct {
		login *corev1.Secret
		works bool
	}{"the first": {first, false}, "the second": {second, true}, "the third": {third, true}} {
		if err := f.logIn(f.address, judged.login, third); (err == nil) != judged.works {
			t.Errorf("%s password after two rotations: %v", name, err)
		}
	}
	if string(third.Data["user"]) != string(first.Data["user"]) {
		t.Errorf("the logins do not take turns: %s, %s", first.Data["user"], third.Data["user"])
	}
	if uids, now := f.podUIDs(), f.serverStarts(); !maps.Equal(pods, uids) || !maps.Equal(starts, now) {
		t.Errorf("something was restarted: %v, %v; %v, %v", pods, uids, starts, now)
	}
	if now := f.leaseTerm(t.Context()); now != term {
		t.Errorf("the primary has moved: term %d, then %d", term, now)
	}
	f.checkCopies()
}

func password(of *v1alpha1.Rotations) *v1alpha1.Rotation { return of.Password }

func certificates(of *v1alpha1.Rotations) *v1alpha1.Rotation { return of.Certificates }

// mountDelay is how late an application sees its Secret change. Mounted ones are later in a real cluster, and overlaps
// are longer.
const mountDelay = 3 * time.Second

// mount is a Secret as an application has it.
type mount struct{ current atomic.Pointer[corev1.Secret] }

// mount begins to follow the Secret, with a delay.
func (f *failover) mount(first *corev1.Secret) *mount {
	m := &mount{}
	m.current.Store(first)
	ctx := f.t.Context()
	go func() {
		for ctx.Err() == nil {
			var secret corev1.Secret
			err := f.c.Get(ctx, f.named("-app"), &secret)
			select {
			case <-ctx.Done():
				return
			case <-time.After(mountDelay):
			}
			if err == nil {
				m.current.Store(&secret)
			}
		}
	}()
	return m
}

// prepare connects by what is mounted: by its authorities, and by its login as well if it follows that.
func (m *mount) prepare(login bool) func(*pgx.ConnConfig) {
	return func(config *pgx.ConnConfig) {
		secret := m.current.Load()
		config.TLSConfig = trusting(secret)
		if login {
			config.User, config.Password = string(secret.Data["user"]), string(secret.Data["password"])
		}
	}
}

func trusting(secret *corev1.Secret) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(secret.Data["ca.crt"])
	return &tls.Config{RootCAs: pool, ServerName: failoverName + "-rw", MinVersion: tls.VersionTLS12}
}

func (f *failover) secret() *corev1.Secret {
	f.t.Helper()
	var secret corev1.Secret
	if err := f.c.Get(f.t.Context(), f.named("-app"), &secret); err != nil {
		f.t.Fatal(err)
	}
	return &secret
}

func (f *failover) awaitRotation(
	what string, begun time.Time, of func(*v1alpha1.Rotations) *v1alpha1.Rotation, token string,
) {
	f.t.Helper()
	f.c.until(what+" are rotated", 2*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		rotations := database.Status.Rotations
		if rotations == nil || of(rotations) == nil {
			return false, database.Status.WaitingFor
		}
		rotation := of(rotations)
		return rotation.Token == token && rotation.Done != nil, fmt.Sprintf("%+v, %s", rotation, database.Status.WaitingFor)
	})
	f.t.Logf("%s rotated after %v", what, time.Since(begun).Round(100*time.Millisecond))
}

// judgeTraffic ends a traffic and demands that there was some, and that nothing of it failed or is unknown.
func (f *failover) judgeTraffic(who string, running *traffic.Traffic) {
	f.t.Helper()
	end := running.Now()
	operations := running.Stop()
	verdict := checks.Judge(operations, f.present(), checks.Times{End: end})
	for _, operation := range operations {
		// What was under way when the traffic was ended is nobody's fault.
		if operation.Fate != traffic.Acknowledged && operation.End < end {
			f.t.Errorf("%s: %s at %v: %s", who, operation.Client, operation.Begin, operation.Problem)
		}
	}
	if verdict.Acknowledged < 200 || len(verdict.Lost) > 0 {
		f.t.Errorf("%s: %d writes were acknowledged, and %d are lost", who, verdict.Acknowledged, len(verdict.Lost))
	}
	f.t.Logf("%s: %d writes acknowledged, %d lost", who, verdict.Acknowledged, len(verdict.Lost))
}

// judgeSecrets demands that everything secret has changed, and nothing else.
func (f *failover) judgeSecrets(first, second *corev1.Secret) {
	f.t.Helper()
	for _, key := range []string{"user", "username", "password", "uri", "ro-uri", "ca.crt"} {
		if string(first.Data[key]) == string(second.Data[key]) {
			f.t.Errorf("%s is the same after the rotation", key)
		}
	}
	for _, key := range []string{"host", "port", "dbname", "type", "provider"} {
		if string(first.Data[key]) != string(second.Data[key]) {
			f.t.Errorf("%s has changed", key)
		}
	}
	if err := f.logIn(f.address, second, first); err == nil {
		f.t.Error("the old authority still vouches for the server")
	}
}

// logIn logs in with the credentials of one Secret and the authorities of another.
func (f *failover) logIn(host string, login, trusted *corev1.Secret) error {
	config := f.connect.Copy()
	config.Host, config.TLSConfig = host, trusting(trusted)
	config.User, config.Password = string(login.Data["user"]), string(login.Data["password"])
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
	defer cancel()
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	return connection.Close(ctx)
}

// judgeOwner has the second login make a table, also after a pool has cleaned its session: it belongs to the owner.
func (f *failover) judgeOwner(login *corev1.Secret) {
	f.t.Helper()
	config := f.connect.Copy()
	config.TLSConfig = trusting(login)
	config.User, config.Password = string(login.Data["user"]), string(login.Data["password"])
	f.connect = config
	connection, err := f.open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = connection.Close(context.Background()) }()
	for _, statement := range []string{`discard all`, `create table made_by_the_other (id int)`} {
		if _, err := connection.Exec(f.t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			f.t.Fatal(err)
		}
	}
	var owner, acts, session string
	err = connection.QueryRow(f.t.Context(), `select tableowner, current_user::text, session_user::text from pg_tables
where tablename = 'made_by_the_other'`).Scan(&owner, &acts, &session)
	if err != nil || owner != "app" || acts != "app" || session != string(login.Data["user"]) {
		f.t.Errorf("the table belongs to %s, and %s acts as %s: %v", owner, session, acts, err)
	}
}
