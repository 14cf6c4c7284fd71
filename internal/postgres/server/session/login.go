package session

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/wire"
)

// Applications log in by one of two roles, which take turns. The first is the owner of the database itself. The other
// is a member of it and becomes it when a session begins, so that whatever it makes belongs to the owner.

// rotationParameter notes, as a setting of a role of ours, the highest rotation that the server was told of. It is in
// the log like everything else: a replica that becomes primary knows it.
const rotationParameter = "meridian.rotation"

const roleQuery = `
select a.rolcanlogin and (a.rolname = $2 or
         exists (select from pg_auth_members m join pg_roles o on o.oid = m.roleid
                 where m.member = a.oid and o.rolname = $2) and
         exists (select from pg_db_role_setting s
                 where s.setrole = a.oid and s.setdatabase = 0 and 'role=' || $2 = any(s.setconfig))),
       coalesce(a.rolpassword, '')
from pg_authid a where a.rolname = $1`

const notedQuery = `
select pg_is_in_recovery(), coalesce((
  select max(split_part(c, '=', 2)::bigint)
  from pg_db_role_setting s join pg_roles r on r.oid = s.setrole, unnest(s.setconfig) c
  where s.setdatabase = 0 and r.rolname = $1 and c ~ '^meridian[.]rotation=[0-9]{1,18}$'), 0)`

// role is what is known of a role that applications log in by.
type role struct {
	// there says that it exists, login that it is let in, as the owner, set that it has the password.
	there, login, set bool
}

func (l *Link) lookAtLogins(
	ctx context.Context, connection *pgx.Conn, logins postgres.Logins, wanted wire.Application,
	application *postgres.Application,
) error {
	owner, err := findRole(ctx, connection, postgres.Login{Name: wanted.Owner}, wanted.Owner)
	if err != nil {
		return err
	}
	present, err := findRole(ctx, connection, logins.Present, wanted.Owner)
	if err != nil {
		return err
	}
	application.Role, application.Login, application.PasswordMatches = owner.there, present.login, present.set
	application.LoginName, application.Rotation = another(logins.Present.Name, wanted.Owner), logins.Present.Rotation
	var replica bool
	err = connection.QueryRow(ctx, notedQuery, render.RoleMonitor).Scan(&replica, &application.NotedRotation)
	if err != nil {
		return fmt.Errorf("look for the rotation: %w", Short(err))
	}
	if logins.Next == nil {
		return nil
	}
	found, err := findRole(ctx, connection, *logins.Next, wanted.Owner)
	if err != nil {
		return err
	}
	next := &postgres.NextLogin{
		Name: another(logins.Next.Name, wanted.Owner), Rotation: logins.Next.Rotation, Set: found.login && found.set,
	}
	application.Next = next
	switch {
	case !next.Set:
	case replica:
		next.Works = true
	default:
		if err := l.tryLogin(ctx, *logins.Next, wanted); err != nil {
			next.Problem = err.Error()
		}
		next.Works = next.Problem == ""
	}
	return nil
}

// another is the name of a login that is not the owner itself.
func another(name, owner string) string {
	if name == owner {
		return ""
	}
	return name
}

func findRole(ctx context.Context, connection *pgx.Conn, login postgres.Login, owner string) (role, error) {
	var found role
	var stored string
	err := connection.QueryRow(ctx, roleQuery, login.Name, owner).Scan(&found.login, &stored)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return role{}, nil
	case err != nil:
		return role{}, fmt.Errorf("look for the role: %w", Short(err))
	}
	found.there, found.set = true, matches(stored, login.Password)
	return found, nil
}

// tryLogin logs in as an application does: over the network, with TLS and the password.
func (l *Link) tryLogin(ctx context.Context, login postgres.Login, wanted wire.Application) error {
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=require passfile=/dev/null", l.Port))
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	config.User, config.Password, config.Database, config.Fallbacks = login.Name, login.Password, wanted.Database, nil
	config.RuntimeParams = map[string]string{"application_name": "meridian-agent"}
	config.ConnectTimeout, config.DefaultQueryExecMode = lookPatience, pgx.QueryExecModeExec
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("log in: %w", Short(err))
	}
	defer func() { _ = connection.Close(ctx) }()
	var acts string
	if err := connection.QueryRow(ctx, "select current_user::text").Scan(&acts); err != nil {
		return fmt.Errorf("log in: %w", Short(err))
	}
	if acts != wanted.Owner {
		return fmt.Errorf("log in: it acts as %s instead of %s", acts, wanted.Owner)
	}
	return nil
}

// CreateRole implements postgres.SQL.
func (l *Link) CreateRole(ctx context.Context, login postgres.Login) error {
	return l.setRole(ctx, "create role "+identifier(login.Name), login, login.Name)
}

// SetLogin implements postgres.SQL. It fails for an owner that has gone.
func (l *Link) SetLogin(ctx context.Context, login postgres.Login, owner string) error {
	return l.setRole(ctx, "", login, owner)
}

// setRole does all of it or nothing: a password that is in force and a rotation that is not noted would let an older
// password come back.
func (l *Link) setRole(ctx context.Context, create string, login postgres.Login, owner string) error {
	fresh, err := newVerifier(login.Password)
	if err != nil {
		return err
	}
	statements := []string{"begin"}
	if create != "" {
		statements = append(statements, create)
	}
	name := identifier(login.Name)
	if login.Name != owner {
		statements = append(statements, fmt.Sprintf(
			"do $$ begin if not exists (select from pg_roles where rolname = %s) then create role %s; end if; end $$",
			literal(login.Name), name), fmt.Sprintf("grant %s to %s", identifier(owner), name),
			fmt.Sprintf("alter role %s set role to %s", name, literal(owner)))
	}
	// A verifier is base64, digits and punctuation: nothing in it needs an escape.
	statements = append(statements, fmt.Sprintf("alter role %s login inherit password '%s'", name, fresh))
	if login.Rotation > 0 {
		statements = append(statements, fmt.Sprintf("do $$ begin if exists (select from pg_roles where rolname = '%s') "+
			"then alter role %s set %s to '%d'; end if; end $$",
			render.RoleMonitor, render.RoleMonitor, rotationParameter, login.Rotation))
	}
	return l.short(ctx, strings.Join(append(statements, "commit"), "; "))
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// scramIterations is PostgreSQL's own default.
const scramIterations = 4096

// verifier is what a server needs to check a password: it does not give the password away. The form is that of
// PostgreSQL's pg_authid, "SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>".
type verifier struct {
	iterations        int
	salt              []byte
	stored, serverKey []byte
}

// newVerifier makes one with a new salt.
func newVerifier(password string) (verifier, error) {
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return verifier{}, fmt.Errorf("make a salt: %w", err)
	}
	return deriveVerifier(password, salt, scramIterations)
}

func deriveVerifier(password string, salt []byte, iterations int) (verifier, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return verifier{}, fmt.Errorf("derive a verifier: %w", err)
	}
	stored := sha256.Sum256(keyed(salted, "Client Key"))
	return verifier{iterations: iterations, salt: salt, stored: stored[:], serverKey: keyed(salted, "Server Key")}, nil
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (v verifier) String() string {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", v.iterations, encode(v.salt), encode(v.stored), encode(v.serverKey))
}

func parseVerifier(text string) (verifier, bool) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == '$' || r == ':' })
	if len(parts) != 5 || parts[0] != "SCRAM-SHA-256" {
		return verifier{}, false
	}
	iterations, err := strconv.Atoi(parts[1])
	if err != nil || iterations < 1 {
		return verifier{}, false
	}
	var keys [3][]byte
	for index := range keys {
		if keys[index], err = base64.StdEncoding.DecodeString(parts[2+index]); err != nil {
			return verifier{}, false
		}
	}
	return verifier{iterations: iterations, salt: keys[0], stored: keys[1], serverKey: keys[2]}, true
}

// matches tells whether a stored verifier is one of this password, so that an unchanged password causes no write. One
// in another form is none.
func matches(stored, password string) bool {
	known, ok := parseVerifier(stored)
	// A verifier with a cost beyond all measure must not stop the agent.
	if !ok || known.iterations > 100*scramIterations {
		return false
	}
	derived, err := deriveVerifier(password, known.salt, known.iterations)
	return err == nil && subtle.ConstantTimeCompare(derived.stored, known.stored) == 1 &&
		subtle.ConstantTimeCompare(derived.serverKey, known.serverKey) == 1
}
