package cluster

import (
	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
)

// controlSpec describes the machine with the control plane. Its parts listen on loopback but for the API server.
func (c *Cluster) controlSpec(config Config) machine.Spec {
	return machine.Spec{
		Name: controlPlane, Dir: c.machineDir(controlPlane), Keep: c.dir,
		Tmpfs:    []string{"/run", "/tmp", "/var/lib"},
		Services: []machine.Service{c.etcd(), c.apiServer(), c.controllerManager(config), c.scheduler(), c.volumes()},
	}
}

// etcd does not wait for the disk: the faults of a sandbox end processes, and what a process wrote is in the kernel.
func (c *Cluster) etcd() machine.Service {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return machine.Service{
		Name: "etcd", Path: c.program("etcd"),
		Args: []string{
			"--name=sandbox", "--data-dir=" + c.path("machines", controlPlane, "etcd"), "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client, "--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer, "--initial-cluster=sandbox=" + peer, "--unsafe-no-fsync",
		},
		Ready: &machine.Check{URL: client + "/health"},
	}
}

func (c *Cluster) apiServer() machine.Service {
	pki := func(file string) string { return c.path("pki", file) }
	return machine.Service{
		Name: "kube-apiserver", Path: c.program("kube-apiserver"),
		Args: []string{
			"--etcd-servers=http://127.0.0.1:2379", "--secure-port=6443", "--advertise-address=" + network.ControlAddress,
			"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
			"--client-ca-file=" + pki("ca.crt"), "--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
			"--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + pki("tokens.pub"), "--service-account-signing-key-file=" + pki("tokens.key"),
			"--service-cluster-ip-range=" + network.ServiceRange,
			// Webhooks and aggregated APIs are called at their pods: the control plane has no kube-proxy.
			"--enable-aggregator-routing=true",
			"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
			"--proxy-client-key-file=" + pki("front-proxy-client.key"),
		},
		Ready: &machine.Check{URL: "https://" + network.ControlAddress + ":6443/readyz", CA: pki("ca.crt")},
	}
}

func (c *Cluster) controllerManager(config Config) machine.Service {
	kubeconfig := c.path("pki", "kube-controller-manager.kubeconfig")
	args := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--leader-elect=false",
		"--use-service-account-credentials=true", "--root-ca-file=" + c.path("pki", "ca.crt"),
		"--service-account-private-key-file=" + c.path("pki", "tokens.key"),
		"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-key-file=" + c.path("pki", "ca.key"),
		"--flex-volume-plugin-dir=/var/lib/volume-plugins", // The default would be made on the host.
	}
	if config.Fast {
		args = append(args, "--node-monitor-grace-period=10s", "--node-monitor-period=2s")
	}
	return machine.Service{
		Name: "kube-controller-manager", Path: c.program("kube-controller-manager"), Args: args,
	}
}

func (c *Cluster) scheduler() machine.Service {
	kubeconfig := c.path("pki", "kube-scheduler.kubeconfig")
	return machine.Service{
		Name: "kube-scheduler", Path: c.program("kube-scheduler"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--leader-elect=false",
		},
	}
}

// VolumesCommand is the hidden command that runs the storage controller.
const VolumesCommand = "volume-controller"

func (c *Cluster) volumes() machine.Service {
	return machine.Service{
		Name: "volumes", Path: c.program("sandbox"),
		Args: []string{VolumesCommand, "--kubeconfig=" + c.path("pki", "volumes.kubeconfig"), "--store=" + c.store().Dir},
	}
}
