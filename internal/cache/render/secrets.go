package render

import (
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

const (
	day = 24 * time.Hour
	// LeafProfile is the leaf that all instances present.
	LeafProfile = "instance"
	// OperatorProfile is the leaf that the operator presents to agents.
	OperatorProfile = "operator"
	// The common names are what agents tell callers by.
	instanceCommonName = "meridian:instance"
	operatorCommonName = "meridian:operator"
)

// IssuerOf is what an authority of the user's own would be asked for.
func IssuerOf(identity cache.Identity, spec v1alpha1.GeoCacheSpec, now time.Time) service.IssuerOf {
	return service.IssuerOf{
		Namespace: identity.Namespace, Spec: spec.Certificates, Policy: Policy(identity, spec), Now: now,
	}
}

// Policy says which certificates a cache has: one for its instances, and one for the operator, which no pod gets to
// see. An authority lives long, because applications may keep a copy of it.
func Policy(identity cache.Identity, spec v1alpha1.GeoCacheSpec) pki.Policy {
	var hosts []string
	for _, service := range []string{cache.WriteName(identity.Name), cache.ReadName(identity.Name)} {
		host := cache.HostOf(service, identity.Namespace)
		hosts = append(hosts, service, service+"."+identity.Namespace, host, host+".cluster.local")
	}
	peers := "*." + cache.PodsName(identity.Name)
	hosts = append(hosts, peers, peers+"."+identity.Namespace, peers+"."+identity.Namespace+".svc", "localhost")
	overlap := time.Hour
	if spec.Rotate != nil && spec.Rotate.Overlap != nil {
		overlap = spec.Rotate.Overlap.Duration
	}
	return pki.Policy{
		Name:              "Meridian cache " + identity.Namespace + "/" + identity.Name,
		AuthorityLifetime: 10 * 365 * day, LeafLifetime: 90 * day, Settle: overlap, Backdate: 5 * time.Minute,
		Constrain: true,
		Leaves: []pki.Profile{
			{Name: LeafProfile, CommonName: instanceCommonName, DNSNames: hosts, Usage: pki.Server | pki.Client},
			{Name: OperatorProfile, CommonName: operatorCommonName, Usage: pki.Client},
		},
	}
}

// AgentHost is the name in the leaf that the operator asks for when it calls an agent by its address.
func AgentHost(identity cache.Identity) string {
	return cache.HostOf(cache.WriteName(identity.Name), identity.Namespace)
}

// Stored is what is in the Secret of the authority: all authorities, and the operator's own leaf.
type Stored struct {
	Authorities, Certificate, Key []byte
	// Endorsements are what an issuer of the user's own has signed, nothing if there is none.
	Endorsements []byte
}

// Authority renders the Secret of the authority.
func Authority(design cache.Design, stored Stored) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: meta(design, cache.AuthorityName(design.Name), "certificates"), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			cache.AuthoritiesKey: stored.Authorities, cache.OperatorCertificateKey: stored.Certificate,
			cache.OperatorPrivateKey: stored.Key,
		},
	}
	if len(stored.Endorsements) > 0 {
		secret.Data[cache.EndorsementsKey] = stored.Endorsements
	}
	return secret
}

// Credentials are the passwords that lie beside the certificate, where no application reads them: that of replication,
// the next one of applications and the one before it, with what is written down about the rotation.
type Credentials struct {
	Replication, Next, Previous string
	Rotation                    service.Rotation
}

// CredentialsOf reads them.
func CredentialsOf(leaf *corev1.Secret) Credentials {
	return Credentials{
		Replication: string(leaf.Data[wire.KeyReplicationPassword]), Next: string(leaf.Data[wire.KeyNextPassword]),
		Previous: string(leaf.Data[wire.KeyPreviousPassword]), Rotation: service.RotationOf(leaf),
	}
}

// Leaf renders the Secret that is mounted into the pods.
func Leaf(design cache.Design, certificate, key, bundle []byte, credentials Credentials) *corev1.Secret {
	leaf := &corev1.Secret{
		ObjectMeta: meta(design, cache.LeafName(design.Name), "certificates"), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			wire.KeyCertificate: certificate, wire.KeyPrivateKey: key, wire.KeyAuthority: bundle,
			wire.KeyReplicationPassword: []byte(credentials.Replication),
		},
	}
	if credentials.Next != "" {
		leaf.Data[wire.KeyNextPassword] = []byte(credentials.Next)
		leaf.Data[wire.KeyPreviousPassword] = []byte(credentials.Previous)
		leaf.Data[wire.KeyNextRotation] = []byte(strconv.FormatInt(credentials.Rotation.Number, 10))
	}
	credentials.Rotation.Note(leaf)
	return leaf
}

// Binding renders the Secret for applications, with the keys of the Service Binding specification.
func Binding(design cache.Design, password string, rotation service.Rotation, bundle []byte) *corev1.Secret {
	write := cache.HostOf(cache.WriteName(design.Name), design.Namespace)
	read := cache.HostOf(cache.ReadName(design.Name), design.Namespace)
	binding := &corev1.Secret{
		ObjectMeta: meta(design, cache.AppSecretName(design.Name), "binding"),
		Type:       "servicebinding.io/redis",
		Data: map[string][]byte{
			"type":            []byte("redis"),
			"provider":        []byte("meridian"),
			"host":            []byte(write),
			"ro-host":         []byte(read),
			"port":            []byte(strconv.Itoa(wire.PortCache)),
			wire.KeyUsername:  []byte(wire.CacheUser),
			wire.KeyPassword:  []byte(password),
			wire.KeyURI:       []byte(uri(write, password)),
			wire.KeyReadURI:   []byte(uri(read, password)),
			wire.KeyAuthority: bundle,
		},
	}
	rotation.Note(binding)
	return binding
}

// uri has the scheme that demands TLS.
func uri(host, password string) string {
	address := url.URL{
		Scheme: "rediss", User: url.UserPassword(wire.CacheUser, password),
		Host: host + ":" + strconv.Itoa(wire.PortCache), Path: "/0",
	}
	return address.String()
}

// Material decodes what is stored. A leaf that cannot be read counts as missing, because another is issued at no cost;
// authorities that cannot be read are an error, because others would interrupt everyone, and so is what an issuer has
// signed.
func Material(authority, leaf *corev1.Secret) (pki.State, error) {
	var state pki.State
	if encoded, found := authority.Data[cache.AuthoritiesKey]; found {
		authorities, err := pki.DecodeAuthorities(encoded)
		if err != nil {
			return state, err
		}
		state.Authorities = authorities
	}
	var err error
	if state.Endorsements, err = pki.DecodeEndorsements(authority.Data[cache.EndorsementsKey]); err != nil {
		return pki.State{}, err
	}
	for _, stored := range []struct {
		profile, certificate, key string
		secret                    *corev1.Secret
	}{
		{LeafProfile, wire.KeyCertificate, wire.KeyPrivateKey, leaf},
		{OperatorProfile, cache.OperatorCertificateKey, cache.OperatorPrivateKey, authority},
	} {
		decoded, err := pki.DecodeLeaf(stored.profile, stored.secret.Data[stored.certificate], stored.secret.Data[stored.key])
		if err == nil {
			state.Leaves = append(state.Leaves, decoded)
		}
	}
	return state, nil
}
