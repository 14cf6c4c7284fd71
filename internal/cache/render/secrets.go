package render

import (
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// Policy says which certificates a cache has: one for its instances, and one for the operator, which no pod gets to
// see. An authority lives long, because applications keep a copy of it in the Secret for applications, which is never
// rewritten.
func Policy(identity cache.Identity) pki.Policy {
	var hosts []string
	for _, service := range []string{cache.WriteName(identity.Name), cache.ReadName(identity.Name)} {
		host := cache.HostOf(service, identity.Namespace)
		hosts = append(hosts, service, service+"."+identity.Namespace, host, host+".cluster.local")
	}
	peers := "*." + cache.PodsName(identity.Name)
	hosts = append(hosts, peers, peers+"."+identity.Namespace, peers+"."+identity.Namespace+".svc", "localhost")
	return pki.Policy{
		Name:              "Meridian cache " + identity.Namespace + "/" + identity.Name,
		AuthorityLifetime: 10 * 365 * day, LeafLifetime: 90 * day, Settle: time.Hour, Backdate: 5 * time.Minute,
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

// Authority renders the Secret of the authority, with the operator's own leaf beside it.
func Authority(design cache.Design, authorities, certificate, key []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: meta(design, cache.AuthorityName(design.Name), "certificates"), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			cache.AuthoritiesKey: authorities, cache.OperatorCertificateKey: certificate, cache.OperatorPrivateKey: key,
		},
	}
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
// authorities that cannot be read are an error, because others would interrupt everyone.
func Material(authority, leaf *corev1.Secret) (pki.State, error) {
	var state pki.State
	if encoded, found := authority.Data[cache.AuthoritiesKey]; found {
		authorities, err := pki.DecodeAuthorities(encoded)
		if err != nil {
			return state, err
		}
		state.Authorities = authorities
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
