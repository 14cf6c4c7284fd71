// Package parts builds the programs that a sandbox runs and that Debian does not have: Kubernetes, containerd
// and CoreDNS, each from Go modules at a pinned version with pinned checksums.
//
// A built part lies in the cache under a key made of everything that went into it, so that a second start, or one
// from another clone, builds nothing. The sources are embedded: the sandbox's binary needs no checkout to build them.
// Start reading at Build.
package parts

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
)

//go:embed _kubernetes _containerd _coredns
var sources embed.FS

// DefaultKubernetes is the minor version that a sandbox runs unless told otherwise.
const DefaultKubernetes = "1.36"

// Part is one module to build and the programs it yields.
type Part struct {
	Name    string
	Version string
	// programs maps a file to the package that it is built from, which has the same name.
	programs map[string]string
	// aliases are further names of the only program, for a binary that looks at the name it is called by.
	aliases []string
	tags    string
	ldflags string
}

// Kubernetes is the part with the API server, its helpers, the kubelet, kube-proxy, kubectl and etcd in one binary.
// The version is a minor ("1.36") or a full one ("1.36.3"); an unknown one is refused with the list of known ones.
func Kubernetes(version string) (Part, error) {
	known := KubernetesVersions()
	at := slices.IndexFunc(known, func(v string) bool { return v == version || minorOf(v) == version })
	if at < 0 {
		return Part{}, fmt.Errorf("kubernetes version %q is not known: choose one of %s", version, strings.Join(known, ", "))
	}
	full := known[at]
	major, minor, _ := strings.Cut(minorOf(full), ".")
	stamp := "-X k8s.io/component-base/version."
	return Part{
		Name:     "kubernetes",
		Version:  full,
		programs: map[string]string{"kubernetes": "."},
		aliases: []string{
			"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet",
		},
		ldflags: fmt.Sprintf("%sgitVersion=v%s %sgitMajor=%s %sgitMinor=%s", stamp, full, stamp, major, stamp, minor),
	}, nil
}

// Containerd is the container runtime with its shim and its command line.
func Containerd() Part {
	const root = "github.com/containerd/containerd/v2/cmd/"
	return Part{
		Name:    "containerd",
		Version: onlyVersion("_containerd"),
		programs: map[string]string{
			"containerd":              root + "containerd",
			"containerd-shim-runc-v2": root + "containerd-shim-runc-v2",
			"ctr":                     root + "ctr",
		},
		// Without what a node of a sandbox has switched off, or cannot have: some file systems, shares of the caches of the
		// processor, traces.
		tags: "no_btrfs,no_devmapper,no_zfs,no_rdt,no_tracing",
	}
}

// CoreDNS is the cluster's name server.
func CoreDNS() Part {
	return Part{Name: "coredns", Version: onlyVersion("_coredns"), programs: map[string]string{"coredns": "."}}
}

// KubernetesVersions lists the versions that can be built, the newest first.
func KubernetesVersions() []string {
	versions := versionsIn("_kubernetes")
	slices.Reverse(versions)
	return versions
}

// Key names the part's folder in the cache. It changes with every input of the build, the toolchain included. The flags
// of the compiler that all builds have in common are left out on purpose as long as they change only how long it takes.
func (p Part) Key() string {
	sum := sha256.New()
	for _, name := range p.files() {
		content, err := sources.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("embedded source %s: %v", name, err)) // files lists what is embedded.
		}
		fmt.Fprintf(sum, "%s %d\n%s\n", path.Base(name), len(content), content)
	}
	fmt.Fprintf(sum, "%v %v %s %s %s %s", p.programs, p.aliases, p.tags, p.ldflags, runtime.Version(), runtime.GOARCH)
	return fmt.Sprintf("%s-%s-%s", p.Name, p.Version, hex.EncodeToString(sum.Sum(nil))[:12])
}

// files lists the embedded files of the part: its module files and, where it has one, its main.go.
func (p Part) files() []string {
	root := "_" + p.Name
	files := []string{path.Join(root, p.Version, "go.mod.txt"), path.Join(root, p.Version, "go.sum.txt")}
	if _, err := fs.Stat(sources, path.Join(root, "main.go")); err == nil {
		files = append(files, path.Join(root, "main.go"))
	}
	return files
}

func versionsIn(root string) []string {
	entries, err := sources.ReadDir(root)
	if err != nil {
		panic(fmt.Sprintf("embedded sources of %s: %v", root, err)) // The compiler checked that the folder is there.
	}
	var versions []string
	for _, entry := range entries {
		if entry.IsDir() {
			versions = append(versions, entry.Name())
		}
	}
	return versions
}

func onlyVersion(root string) string {
	return versionsIn(root)[0]
}

func minorOf(version string) string {
	return version[:strings.LastIndexByte(version, '.')]
}
