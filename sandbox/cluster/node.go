package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
)

// The hidden commands of a node: one serves volumes to its kubelet, one enforces network policies.
const (
	DriverCommand = "volume-driver"
	PolicyCommand = "policy-enforcer"
)

const containerdSocket = "/run/containerd/containerd.sock"

// nodeSpec describes node n. Every node uses the paths that a node has everywhere; each shows its own folder there.
func (c *Cluster) nodeSpec(config Config, n int) (machine.Spec, error) {
	name := nodeName(n)
	dir := c.machineDir(name)
	spec := machine.Spec{
		Name: name, Dir: dir, Keep: c.dir,
		Tmpfs: []string{"/run", "/tmp", "/var/lib", "/var/log", "/dev/shm"},
		Binds: []machine.Bind{
			{Source: dir + "/kubelet", Target: "/var/lib/kubelet"},
			{Source: dir + "/containerd", Target: "/var/lib/containerd"},
			{Source: dir + "/pod-logs", Target: "/var/log/pods"},
			{Source: dir + "/machine-id", Target: "/etc/machine-id"},
		},
		Values:   nodeValues(),
		Sysctls:  map[string]string{"net/ipv4/ip_forward": "1"},
		Services: c.nodeServices(config, n),
	}
	for _, folder := range []string{"kubelet", "containerd", "pod-logs", "cni"} {
		if err := os.MkdirAll(dir+"/"+folder, 0o755); err != nil {
			return machine.Spec{}, fmt.Errorf("make folder of %s: %w", name, err)
		}
	}
	return spec, c.writeNodeFiles(config, n)
}

// bootID is the kernel's value that is new at each boot.
const bootID = "kernel/random/boot_id"

// nodeValues are the kernel's values that the kubelet sets or reads and that all namespaces share. The boot id is
// new at each boot: by it the kubelet notices and reports that its node was rebooted.
func nodeValues() map[string]string {
	return map[string]string{
		bootID: randomID(), "vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
		"kernel/panic": "10", "kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

func (c *Cluster) nodeServices(config Config, n int) []machine.Service {
	name := nodeName(n)
	dir := c.machineDir(name)
	env := []string{"PATH=" + c.path("bin") + ":" + machine.ToolPath}
	kubeEnv := env
	if config.Fast { // A connection to an API server that went silent is given up sooner.
		kubeEnv = append(kubeEnv, "HTTP2_READ_IDLE_TIMEOUT_SECONDS=3", "HTTP2_PING_TIMEOUT_SECONDS=3")
	}
	return []machine.Service{
		c.containerd(dir),
		{Name: "volume-driver", Path: c.program("sandbox"), Env: env,
			Args: []string{DriverCommand, "--node=" + name, "--store=" + c.store().Dir}},
		{Name: "policies", Path: c.program("sandbox"), Env: env,
			Args: []string{PolicyCommand, "--node=" + name, "--kubeconfig=" + c.path("pki", "policies.kubeconfig")}},
		{Name: "kubelet", Path: c.program("kubelet"), Env: kubeEnv, Args: []string{
			"--config=" + dir + "/kubelet.yaml", "--kubeconfig=" + c.path("pki", name+".kubeconfig"),
			"--hostname-override=" + name, "--node-ip=" + network.NodeAddress(n),
		}},
		{Name: "kube-proxy", Path: c.program("kube-proxy"), Env: kubeEnv, Args: []string{
			"--config=" + dir + "/kube-proxy.yaml", "--hostname-override=" + name,
		}},
	}
}

func (c *Cluster) containerd(dir string) machine.Service {
	return machine.Service{
		Name: "containerd", Path: c.program("containerd"), Args: []string{"--config=" + dir + "/containerd.toml"},
		Env:   []string{"PATH=" + c.path("bin") + ":" + machine.ToolPath},
		Ready: &machine.Check{Socket: containerdSocket},
	}
}

func (c *Cluster) writeNodeFiles(config Config, n int) error {
	name := nodeName(n)
	dir := c.machineDir(name)
	if !exists(dir + "/machine-id") { // A node keeps its identity over reboots.
		id := strings.ReplaceAll(randomID(), "-", "") + "\n"
		if err := writeFile(dir+"/machine-id", []byte(id), 0o644); err != nil {
			return err
		}
	}
	proxyKubeconfig := c.path("pki", "kube-proxy.kubeconfig")
	for file, content := range map[string]string{
		"containerd.toml":         containerdConfig(dir),
		"cni/10-sandbox.conflist": fmt.Sprintf(cniConfig, network.NodePods(n)),
		"kubelet.yaml":            c.kubeletConfig(config, n),
		"kube-proxy.yaml":         fmt.Sprintf(proxyConfig, proxyKubeconfig, network.PodRange),
		"resolv.conf":             "", // Nothing outside of the cluster can be resolved.
		"registries/" + network.Registry + "/hosts.toml": fmt.Sprintf("server = %q\n", "http://"+network.Registry),
	} {
		if err := writeFile(dir+"/"+file, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// containerdConfig leaves out what a node of one machine cannot have or does not need.
func containerdConfig(dir string) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.differ.v1.erofs", "io.containerd.internal.v1.tracing"]

[grpc]
  address = %[1]q

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  discard_unpacked_layers = true
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %[2]q
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = %[4]q

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = %[3]q
`, containerdSocket, pauseImage, dir+"/cni", dir+"/registries")
}

// cniConfig connects each pod by a cable of its own and routes; addresses are given out anew after a reboot.
const cniConfig = `{"cniVersion": "1.0.0", "name": "sandbox", "plugins": [{"type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "/run/cni-addresses", "ranges": [[{"subnet": %q}]],
  "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %q}
mode: nftables
clusterCIDR: %s
detectLocalMode: ClusterCIDR
# A namespace may not set these; zero leaves them alone.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s,
  udpTimeout: 0s, udpStreamTimeout: 0s}
`

// kubeletConfig divides the host's memory among the nodes, since each kubelet sees all of it.
func (c *Cluster) kubeletConfig(config Config, n int) string {
	name := nodeName(n)
	dir := c.machineDir(name)
	total := hostMemory()
	settings := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[1]q}}
authorization: {mode: Webhook}
tlsCertFile: %[2]q
tlsPrivateKeyFile: %[3]q
clusterDNS: [%[4]s]
clusterDomain: cluster.local
resolvConf: %[5]q
containerRuntimeEndpoint: unix://%[6]s
cgroupDriver: cgroupfs
failCgroupV1: false
featureGates: {KubeletInUserNamespace: true}
systemReserved: {memory: "%[7]d"}
enforceNodeAllocatable: [pods]
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 1%%, nodefs.available: 1%%, imagefs.available: 1%%, nodefs.inodesFree: 1%%}
syncFrequency: 5s
volumePluginDir: /var/lib/kubelet/volume-plugins
serializeImagePulls: false
`, c.path("pki", "ca.crt"), c.path("pki", name+"-serving.crt"), c.path("pki", name+"-serving.key"), network.DNSService,
		dir+"/resolv.conf", containerdSocket, total-total/int64(config.Nodes))
	if config.Fast {
		settings += "nodeStatusUpdateFrequency: 2s\nnodeLeaseDurationSeconds: 8\n"
	}
	return settings
}

// hostMemory is the host's memory in bytes.
func hostMemory() int64 {
	content, err := os.ReadFile("/proc/meminfo")
	var kilobytes int64
	if err == nil {
		_, err = fmt.Sscanf(string(content), "MemTotal: %d kB", &kilobytes)
	}
	if err != nil {
		panic(fmt.Sprintf("read /proc/meminfo: %v", err)) // Every Linux has it, in this form.
	}
	return kilobytes << 10
}

// randomID is a random identifier in the form of a UUID.
func randomID() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // It never fails.
	text := hex.EncodeToString(raw)
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}
