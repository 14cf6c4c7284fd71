package admit

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What a template says about Meridian's own containers must not change what runs in them. This is no border between
// users: whoever may write spec.image has the server anyway. It keeps a template from being more than it looks.

// loadingNames begin the names of variables that change what a program loads, what it starts, or whom it trusts and
// calls: of the dynamic linker and the C library, of OpenSSL, of Go, of shells, of languages that live in the server,
// of GDAL's drivers, and of clients of HTTP and of Kubernetes.
var loadingNames = []string{
	"LD_", "GLIBC_", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS",
	"NSS_WRAPPER_", "OPENSSL_", "SSL_CERT_", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR",
	"BASH_", "SHELLOPTS", "BASHOPTS", "PERL", "PYTHON", "TCL", "LUA_", "GDAL_DRIVER_PATH", "GDAL_VRT_ENABLE_PYTHON",
	"GDAL_PYTHON", "KUBERNETES_",
}

// loadingWords are whole names, in any case.
var loadingWords = []string{
	"PATH", "ENV", "IFS", "SHELL", "HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

func changesLoading(variable string) bool {
	return slices.Contains(loadingWords, strings.ToUpper(variable)) ||
		slices.ContainsFunc(loadingNames, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
}

// systemFolders hold what our processes and the server load and rely on, in every image.
var systemFolders = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/proc", "/sys", "/dev", "/meridian",
	"/etc/ld.so.preload", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl", "/etc/passwd",
	"/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf",
}

// hidesSystem tells whether a path is, contains, or lies in one of them.
func hidesSystem(mountPath string) bool {
	cleaned := strings.TrimSuffix(path.Clean("/"+mountPath), "/") + "/"
	return slices.ContainsFunc(systemFolders, func(folder string) bool {
		return strings.HasPrefix(cleaned, folder+"/") || strings.HasPrefix(folder+"/", cleaned)
	})
}

// probes refuses hosts in the probes and hooks of a container: the kubelet sends them from the network of the node,
// past every NetworkPolicy.
func (f *findings) probes(container *corev1.Container) {
	const why = "the node would call %s past every NetworkPolicy; remove it, and the pod itself is called"
	check := func(field string, web *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) {
		if web != nil {
			f.refuse(web.Host != "", field+".httpGet.host", why, web.Host)
		}
		if socket != nil {
			f.refuse(socket.Host != "", field+".tcpSocket.host", why, socket.Host)
		}
	}
	for _, each := range []struct {
		field string
		probe *corev1.Probe
	}{
		{"livenessProbe", container.LivenessProbe}, {"readinessProbe", container.ReadinessProbe},
		{"startupProbe", container.StartupProbe},
	} {
		if each.probe != nil {
			check(each.field, each.probe.HTTPGet, each.probe.TCPSocket)
		}
	}
	if container.Lifecycle == nil {
		return
	}
	for _, each := range []struct {
		field string
		hook  *corev1.LifecycleHandler
	}{{"lifecycle.postStart", container.Lifecycle.PostStart}, {"lifecycle.preStop", container.Lifecycle.PreStop}} {
		if each.hook != nil {
			check(each.field, each.hook.HTTPGet, each.hook.TCPSocket)
		}
	}
}
