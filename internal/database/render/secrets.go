package render

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

const (
	day = 24 * time.Hour
	// SharedProfile is the leaf that instances of an earlier version have in common. Other leaves of instances have the
	// name of their instance.
	SharedProfile = "instance"
	// OperatorProfile is the leaf that the operator presents to agents.
	OperatorProfile = "operator"
	// The common names are what agents and PostgreSQL tell callers by.
	instanceCommonName = "meridian:instance"
	operatorCommonName = "meridian:operator"
)

// Holders are those that get a certificate.
type Holders struct {
	// Instances get one each. Shared says that there is one in common besides, for pods of an earlier version.
	Instances []string
	Shared    bool
}

// HoldersOf are those of a design.
func HoldersOf(design database.Design) Holders {
	return Holders{Instances: design.Holders(), Shared: design.Shared}
}

// Policy says which certificates a database has: one for each instance, and one for the operator, which no pod gets to
// see. That of an instance has the names that clients use, because it may become the primary, and of the names that
// instances call each other by its own alone. An authority lives long, because applications may keep a copy of it.
func Policy(identity database.Identity, spec v1alpha1.GeoDatabaseSpec, holders Holders) pki.Policy {
	hosts := []string{"localhost"}
	for _, service := range []string{database.WriteName(identity.Name), database.ReadName(identity.Name)} {
		host := database.HostOf(service, identity.Namespace)
		hosts = append(hosts, service, service+"."+identity.Namespace, host, host+".cluster.local")
	}
	pods := database.PodsName(identity.Name)
	domains := []string{pods, pods + "." + identity.Namespace, pods + "." + identity.Namespace + ".svc"}
	leaf := func(name, host string) pki.Profile {
		profile := pki.Profile{
			Name: name, CommonName: instanceCommonName, DNSNames: slices.Clone(hosts), Usage: pki.Server | pki.Client,
		}
		for _, domain := range domains {
			profile.DNSNames = append(profile.DNSNames, host+"."+domain)
		}
		return profile
	}
	policy := pki.Policy{
		Name:              "Meridian database " + identity.Namespace + "/" + identity.Name,
		AuthorityLifetime: 10 * 365 * day, LeafLifetime: 90 * day, Settle: overlap(spec), Backdate: 5 * time.Minute,
		Constrain: true, Domains: domains,
		Leaves: []pki.Profile{{Name: OperatorProfile, CommonName: operatorCommonName, Usage: pki.Client}},
	}
	for _, instance := range holders.Instances {
		policy.Leaves = append(policy.Leaves, leaf(instance, database.PodName(instance)))
	}
	if holders.Shared {
		policy.Leaves = append(policy.Leaves, leaf(SharedProfile, "*"))
	}
	return policy
}

// overlap is how long a change of what is trusted takes until everyone knows it.
func overlap(spec v1alpha1.GeoDatabaseSpec) time.Duration {
	if spec.Rotate == nil {
		return time.Hour
	}
	return durationOr(spec.Rotate.Overlap, time.Hour)
}

// AgentHost is the name in the leaf that the operator asks for when it calls the agent of an instance by its address.
func AgentHost(identity database.Identity, instance string) string {
	return database.PodName(instance) + "." + database.HostOf(database.PodsName(identity.Name), identity.Namespace)
}

// Stored is what is in the Secret of the authority: all authorities, the operator's own leaf, and who has one else.
type Stored struct {
	Authorities, Certificate, Key []byte
	Holders                       []string
	// Endorsements are what an issuer of the user's own has signed, nothing if there is none.
	Endorsements []byte
}

// Authority renders the Secret of the authority.
func Authority(design database.Design, rotation database.Rotation, stored Stored) *corev1.Secret {
	object := meta(design, database.AuthorityName(design.Name), "certificates")
	rotation.Note(&object)
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[database.AnnotationCertificates] = strings.Join(stored.Holders, " ")
	secret := &corev1.Secret{
		ObjectMeta: object,
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			database.AuthoritiesKey: stored.Authorities, database.OperatorCertificateKey: stored.Certificate,
			database.OperatorPrivateKey: stored.Key,
		},
	}
	if len(stored.Endorsements) > 0 {
		secret.Data[database.EndorsementsKey] = stored.Endorsements
	}
	return secret
}

// Listed are the instances that have a Secret with a certificate of their own, by what is written down.
func Listed(authority *corev1.Secret) []string {
	return strings.Fields(authority.Annotations[database.AnnotationCertificates])
}

// LeafSecret is the name of the Secret of a leaf.
func LeafSecret(owner, profile string) string {
	if profile == SharedProfile {
		return database.LeafName(owner)
	}
	return certificateName(owner, profile)
}

// Leaf renders the Secret that is mounted into the pod of an instance, or into those that share one.
func Leaf(design database.Design, profile string, certificate, key, bundle []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: meta(design, LeafSecret(design.Name, profile), "certificates"),
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			wire.KeyCertificate: certificate, wire.KeyPrivateKey: key, wire.KeyAuthority: bundle,
		},
	}
}

// Binding renders the Secret for applications, with the keys of the Service Binding specification, and the addresses
// once more for environment variables. See Environment for those of caches.
func Binding(design database.Design, login Login, rotation database.Rotation, bundle []byte) *corev1.Secret {
	write := database.HostOf(database.WriteName(design.Name), design.Namespace)
	name := design.Spec.Bootstrap.Database
	object := meta(design, database.AppSecretName(design.Name), "binding")
	rotation.Note(&object)
	secret := &corev1.Secret{
		ObjectMeta: object,
		Type:       "servicebinding.io/postgresql",
		Data: map[string][]byte{
			"type":            []byte("postgresql"),
			"provider":        []byte("meridian"),
			"host":            []byte(write),
			"port":            []byte(strconv.Itoa(wire.PortPostgres)),
			"dbname":          []byte(name),
			"database":        []byte(name),
			wire.KeyAuthority: bundle,
		},
	}
	PutLogin(design, secret, login)
	return Environment(secret, nil)
}

// Login is what an application logs in by.
type Login struct {
	Name, Password string
	// Number tells later credentials from earlier ones.
	Number int64
}

// PutLogin puts credentials in the place of those that are in the Secret for applications.
func PutLogin(design database.Design, secret *corev1.Secret, login Login) {
	name := design.Spec.Bootstrap.Database
	write := database.HostOf(database.WriteName(design.Name), design.Namespace)
	read := database.HostOf(database.ReadName(design.Name), design.Namespace)
	secret.Data["user"] = []byte(login.Name)
	secret.Data[wire.KeyUsername] = []byte(login.Name)
	secret.Data[wire.KeyPassword] = []byte(login.Password)
	secret.Data[wire.KeyURI] = []byte(uri(write, login.Name, login.Password, name))
	secret.Data[wire.KeyReadURI] = []byte(uri(read, login.Name, login.Password, name))
	secret.Data[wire.KeyRotation] = []byte(strconv.FormatInt(login.Number, 10))
	for _, key := range []string{wire.KeyNextUsername, wire.KeyNextPassword, wire.KeyNextRotation} {
		delete(secret.Data, key)
	}
	followLogin(secret)
}

// PutNextLogin puts credentials beside those that are in the Secret for applications.
func PutNextLogin(secret *corev1.Secret, login Login) {
	secret.Data[wire.KeyNextUsername] = []byte(login.Name)
	secret.Data[wire.KeyNextPassword] = []byte(login.Password)
	secret.Data[wire.KeyNextRotation] = []byte(strconv.FormatInt(login.Number, 10))
}

// NextLogin are the credentials that are made ready, if there are any.
func NextLogin(secret *corev1.Secret) (Login, bool) {
	number, err := strconv.ParseInt(string(secret.Data[wire.KeyNextRotation]), 10, 64)
	login := Login{
		Name: string(secret.Data[wire.KeyNextUsername]), Password: string(secret.Data[wire.KeyNextPassword]), Number: number,
	}
	return login, err == nil && number > 0 && login.Name != "" && login.Password != ""
}

// Note writes down, on a Secret that exists, how far a rotation has come.
func Note(secret *corev1.Secret, rotation database.Rotation) { rotation.Note(secret) }

// RotationOf reads what was written down. What cannot be read was not.
func RotationOf(secret *corev1.Secret) database.Rotation { return service.RotationOf(secret) }

// uri demands TLS. Checking the name too needs a path to the authority, which only the application knows.
func uri(host, owner, password, name string) string {
	address := url.URL{
		Scheme: "postgresql", User: url.UserPassword(owner, password),
		Host: host + ":" + strconv.Itoa(wire.PortPostgres), Path: "/" + name, RawQuery: "sslmode=require",
	}
	return address.String()
}

// Material decodes what is stored. A leaf that cannot be read counts as missing, because another is issued at no cost;
// authorities that cannot be read are an error, because others would interrupt everyone. The leaves are by profile.
func Material(authority *corev1.Secret, leaves map[string]*corev1.Secret) (pki.State, error) {
	var state pki.State
	if encoded, found := authority.Data[database.AuthoritiesKey]; found {
		authorities, err := pki.DecodeAuthorities(encoded)
		if err != nil {
			return state, err
		}
		state.Authorities = authorities
	}
	endorsements, err := pki.DecodeEndorsements(authority.Data[database.EndorsementsKey])
	if err != nil {
		return state, err
	}
	state.Endorsements = endorsements
	decode := func(profile string, certificate, key []byte) {
		if decoded, err := pki.DecodeLeaf(profile, certificate, key); err == nil {
			state.Leaves = append(state.Leaves, decoded)
		}
	}
	decode(OperatorProfile, authority.Data[database.OperatorCertificateKey], authority.Data[database.OperatorPrivateKey])
	for _, profile := range slices.Sorted(maps.Keys(leaves)) {
		decode(profile, leaves[profile].Data[wire.KeyCertificate], leaves[profile].Data[wire.KeyPrivateKey])
	}
	return state, nil
}
