package volume

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The kubelet looks for drivers and their registrations in these folders.
const (
	pluginDir   = "/var/lib/kubelet/plugins/" + DriverName
	registryDir = "/var/lib/kubelet/plugins_registry"
)

// Driver serves the volumes of one node to its kubelet.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	Store Store
	Node  string

	// one lets calls in one by one: the kubelet repeats a call that takes long, and two that look for a mount at the
	// same time would both make it.
	one sync.Mutex
}

// Serve answers the kubelet until ctx ends.
func (d *Driver) Serve(ctx context.Context) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(d.inTurn))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterNodeServer(server, d)
	registration.RegisterRegistrationServer(server, d)
	failed := make(chan error, 2)
	for _, socket := range []string{d.endpoint(), filepath.Join(registryDir, DriverName+"-reg.sock")} {
		if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
			return fmt.Errorf("make folder of socket: %w", err)
		}
		if err := os.RemoveAll(socket); err != nil {
			return fmt.Errorf("remove old socket: %w", err)
		}
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case <-ctx.Done():
		server.Stop()
		return nil
	case err := <-failed:
		return fmt.Errorf("serve volumes: %w", err)
	}
}

func (d *Driver) inTurn(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, call grpc.UnaryHandler,
) (any, error) {
	d.one.Lock()
	defer d.one.Unlock()
	return call(ctx, request)
}

func (d *Driver) endpoint() string { return filepath.Join(pluginDir, "csi.sock") }

// GetInfo tells the kubelet's plugin watcher where the driver is.
func (d *Driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: DriverName, Endpoint: d.endpoint(), SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus learns whether the kubelet took the driver.
func (d *Driver) NotifyRegistrationStatus(
	_ context.Context, request *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !request.PluginRegistered {
		fmt.Fprintf(os.Stderr, "the kubelet refused the driver: %s\n", request.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// GetPluginInfo names the driver.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: DriverName, VendorVersion: "1"}, nil
}

// Probe says that the driver lives.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// NodeGetInfo binds volumes to this node.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             d.Node,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{NodeLabel: d.Node}},
	}, nil
}

// NodeGetCapabilities lists the optional calls that the driver answers.
func (d *Driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

// NodeStageVolume mounts the file system once for the node.
func (d *Driver) NodeStageVolume(
	_ context.Context, request *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	if request.GetVolumeCapability().GetBlock() != nil {
		return nil, status.Error(codes.InvalidArgument, "raw block volumes are not offered, only file systems")
	}
	file, target := d.Store.File(d.Node, request.GetVolumeId()), request.GetStagingTargetPath()
	if err := d.there(request.GetVolumeId()); err != nil {
		return nil, err
	}
	if mounted(target) {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, status.Errorf(codes.Internal, "make %s: %v", target, err)
	}
	if err := run("mount", "-t", "xfs", "-o", "loop", file, target); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// there refuses a volume whose file is gone, so that nobody gets what is still mounted of it.
func (d *Driver) there(volume string) error {
	if _, err := os.Stat(d.Store.File(d.Node, volume)); err != nil {
		return status.Errorf(codes.DataLoss, "volume %s is lost: its disk on %s is gone", volume, d.Node)
	}
	return nil
}

// NodeUnstageVolume unmounts it; the loop device goes with the mount.
func (d *Driver) NodeUnstageVolume(
	_ context.Context, request *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	if err := unmount(request.GetStagingTargetPath()); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume shows the mounted volume to one pod. The next pod may come before the volume was unmounted behind
// the one before, so this asks once more whether it is lost.
func (d *Driver) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	target := request.GetTargetPath()
	if err := d.there(request.GetVolumeId()); err != nil {
		return nil, err
	}
	if mounted(target) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, status.Errorf(codes.Internal, "make %s: %v", target, err)
	}
	if err := unix.Mount(request.GetStagingTargetPath(), target, "", unix.MS_BIND, ""); err != nil {
		return nil, status.Errorf(codes.Internal, "bind volume: %v", err)
	}
	if request.GetReadonly() {
		if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return nil, status.Errorf(codes.Internal, "make volume read-only: %v", err)
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes the volume from the pod.
func (d *Driver) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unmount(request.GetTargetPath()); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume lets device and file system follow the file, which the controller has grown already.
func (d *Driver) NodeExpandVolume(
	_ context.Context, request *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	file := d.Store.File(d.Node, request.GetVolumeId())
	device, err := deviceOf(file)
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err := errors.Join(run("losetup", "-c", device), run("xfs_growfs", request.GetVolumePath())); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, status.Error(codes.DataLoss, err.Error())
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: info.Size()}, nil
}

// NodeGetVolumeStats tells the kubelet how full the volume is.
func (d *Driver) NodeGetVolumeStats(
	_ context.Context, request *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(request.GetVolumePath(), &stat); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	block := stat.Bsize
	bytes := &csi.VolumeUsage{
		Unit: csi.VolumeUsage_BYTES, Total: int64(stat.Blocks) * block,
		Used:      int64(stat.Blocks-stat.Bfree) * block,
		Available: int64(stat.Bavail) * block,
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{bytes}}, nil
}
