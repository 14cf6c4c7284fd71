package render

import (
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

const (
	day = 24 * time.Hour
	// LeafProfile is the leaf that all instances present.
	LeafProfile = "instance"
	// OperatorProfile is the leaf that the operator presents to agents.
	OperatorProfile = "operator"
	// The common names are what agents and PostgreSQL tell callers by.
	instanceCommonName = "meridian:instance"
	operatorCommonName = "meridian:operator"
)

// Policy says which certificates a database has: one for its instances, and one for the operator, which no pod gets to
// see. An authority lives long, because applications keep a copy of it in the Secret for applications,
// which is never rewritten.
func Policy(identity database.Identity) pki.Policy {
	var hosts []string
	for _, service := range []string{database.WriteName(identity.Name), database.ReadName(identity.Name)} {
		host := database.HostOf(service, identity.Namespace)
		hosts = append(hosts, service, service+"."+identity.Namespace, host, host+".cluster.local")
	}
	peers := "*." + database.PodsName(identity.Name)
	hosts = append(hosts, peers, peers+"."+identity.Namespace, peers+"."+identity.Namespace+".svc", "localhost")
	return pki.Policy{
		Name:              "Meridian database " + identity.Namespace + "/" + identity.Name,
		AuthorityLifetime: 20 * 365 * day, LeafLifetime: 90 * day, Settle: time.Hour, Backdate: 5 * time.Minute,
		Leaves: []pki.Profile{
			{Name: LeafProfile, CommonName: instanceCommonName, DNSNames: hosts, Usage: pki.Server | pki.Client},
			{Name: OperatorProfile, CommonName: operatorCommonName, Usage: pki.Client},
		},
	}
}

// AgentHost is the name in the leaf that the operator asks for when it calls an agent by its address.
func AgentHost(identity database.Identity) string {
	return database.HostOf(database.WriteName(identity.Name), identity.Namespace)
}

// Authority renders the Secret of the authority, with the operator's own leaf beside it.
func Authority(design database.Design, authorities, certificate, key []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: meta(design, database.AuthorityName(design.Name), "certificates"),
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			database.AuthoritiesKey: authorities, database.OperatorCertificateKey: certificate,
			database.OperatorPrivateKey: key,
		},
	}
}

// Leaf renders the Secret that is mounted into the pods.
func Leaf(design database.Design, certificate, key, bundle []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: meta(design, database.LeafName(design.Name), "certificates"),
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			wire.KeyCertificate: certificate, wire.KeyPrivateKey: key, wire.KeyAuthority: bundle,
		},
	}
}

// Binding renders the Secret for applications, with the keys of the Service Binding specification, and the addresses
// once more for environment variables. See Environment for those of caches.
func Binding(design database.Design, password string, bundle []byte) *corev1.Secret {
	write := database.HostOf(database.WriteName(design.Name), design.Namespace)
	read := database.HostOf(database.ReadName(design.Name), design.Namespace)
	owner, name := design.Spec.Bootstrap.Owner, design.Spec.Bootstrap.Database
	return Environment(&corev1.Secret{
		ObjectMeta: meta(design, database.BindingName(design.Name), "binding"),
		Type:       "servicebinding.io/postgresql",
		Data: map[string][]byte{
			"type":            []byte("postgresql"),
			"provider":        []byte("meridian"),
			"host":            []byte(write),
			"port":            []byte(strconv.Itoa(wire.PortPostgres)),
			"dbname":          []byte(name),
			"database":        []byte(name),
			"user":            []byte(owner),
			wire.KeyUsername:  []byte(owner),
			wire.KeyPassword:  []byte(password),
			wire.KeyURI:       []byte(uri(write, owner, password, name)),
			wire.KeyReadURI:   []byte(uri(read, owner, password, name)),
			wire.KeyAuthority: bundle,
		},
	}, nil)
}

// uri demands TLS. Checking the name too needs a path to the authority, which only the application knows.
func uri(host, owner, password, name string) string {
	address := url.URL{
		Scheme: "postgresql", User: url.UserPassword(owner, password),
		Host: host + ":" + strconv.Itoa(wire.PortPostgres), Path: "/" + name, RawQuery: "sslmode=require",
	}
	return address.String()
}

// Material decodes what is stored. A leaf that cannot be read counts as missing, because another is issued at no cost;
// authorities that cannot be read are an error, because others would interrupt everyone.
func Material(authority, leaf *corev1.Secret) (pki.State, error) {
	var state pki.State
	if encoded, found := authority.Data[database.AuthoritiesKey]; found {
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
		{OperatorProfile, database.OperatorCertificateKey, database.OperatorPrivateKey, authority},
	} {
		decoded, err := pki.DecodeLeaf(stored.profile, stored.secret.Data[stored.certificate], stored.secret.Data[stored.key])
		if err == nil {
			state.Leaves = append(state.Leaves, decoded)
		}
	}
	return state, nil
}
