"""The node: containerd, kubelet and kube-proxy, and every setting of theirs."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.control_plane import POD_RANGE, Site, write_user
from hack.cluster.pki import Authority
from hack.cluster.processes import Launcher, Started
from hack.tools.finder import find

NODE = "node1"
NODE_ADDRESS = "172.31.255.1"
DNS_ADDRESS = "10.96.0.10"
PAUSE_IMAGE = "docker.io/local/pause:1"
TOOLS = ("kube-scheduler", "kubelet", "kube-proxy", "containerd", "ctr", "coredns")
# What containerd looks for under these very names.
PLACED = ("containerd-shim-runc-v2", "bridge", "host-local", "loopback", "portmap")
_POD_SUBNET = "10.244.0.0/24"


@dataclass(frozen=True)
class Node:
    """Where the node of a cluster keeps its files."""

    site: Site
    # Below this cgroup lie all its pods, in every hierarchy.
    cgroup: str

    @property
    def folder(self) -> Path:
        """Return the folder of everything that is the node's."""
        return self.site.folder / "node"

    @property
    def socket(self) -> Path:
        """Return the socket of its containerd."""
        return self.folder / "containerd.sock"

    def ctr(self, *arguments: str | Path) -> list[str]:
        """Return a command line of containerd's client, in the namespace that the kubelet uses."""
        return [str(find("ctr")), f"--address={self.socket}", "--namespace=k8s.io"] + [
            str(argument) for argument in arguments
        ]


def write_node(node: Node, authority: Authority) -> None:
    """Write every setting and identity of a node."""
    folder = node.folder
    for name in ("bin", "cni", "kubelet", "plugins"):
        (folder / name).mkdir(parents=True)
    for tool in PLACED:
        (folder / "bin" / tool).symlink_to(find(tool))
    (folder / "containerd.toml").write_text(_containerd_config(node))
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_network_config()))
    (folder / "resolv.conf").write_text("# Pods ask the cluster's own DNS; there is no other.\n")
    (folder / "kubelet.json").write_text(json.dumps(_kubelet_config(node), indent=2))
    (folder / "kube-proxy.json").write_text(json.dumps(_proxy_config(node), indent=2))
    server = authority.issue(f"system:node:{NODE}", addresses=[NODE_ADDRESS], hosts=[NODE])
    server.write(node.site.pki, "kubelet")
    write_user(node.site, authority, "kubelet", name=f"system:node:{NODE}", groups=["system:nodes"])


def network_commands() -> list[list[str]]:
    """Return what makes the node's own address and lets pods reach each other and services."""
    return [
        ["ip", "link", "add", "node0", "type", "bridge"],
        ["ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "node0"],
        ["ip", "link", "set", "node0", "up"],
        # Nothing is beyond it; but without a route the node itself cannot even ask a Service.
        ["ip", "route", "add", "default", "dev", "node0"],
        ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"],
    ]


def start_containerd(node: Node, launcher: Launcher) -> Started:
    """Start containerd."""
    config = node.folder / "containerd.toml"
    path = f"{node.folder / 'bin'}:{os.environ['PATH']}"
    return launcher.start(
        "containerd", ["env", f"PATH={path}", find("containerd"), f"--config={config}"]
    )


def start_kubelet(node: Node, launcher: Launcher) -> Started:
    """Start the kubelet."""
    return launcher.start(
        "kubelet",
        [
            find("kubelet"),
            f"--config={node.folder / 'kubelet.json'}",
            f"--kubeconfig={node.site.kubeconfig('kubelet')}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}",
            f"--root-dir={node.folder / 'kubelet'}",
        ],
    )


def start_proxy(node: Node, launcher: Launcher) -> Started:
    """Start kube-proxy."""
    config = node.folder / "kube-proxy.json"
    return launcher.start("kube-proxy", [find("kube-proxy"), f"--config={config}"])


def start_scheduler(node: Node, launcher: Launcher) -> Started:
    """Start the scheduler, which an API server without nodes does not need."""
    return launcher.start(
        "kube-scheduler",
        [
            find("kube-scheduler"),
            f"--kubeconfig={node.site.kubeconfig('kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
        ],
    )


def _containerd_config(node: Node) -> str:
    folder = node.folder
    return f"""\
version = 3
root = "{folder}/containerd"
state = "{folder}/containerd-state"

[grpc]
  address = "{node.socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/plugins"

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  # Containers of some machines may not lower the score, and runc fails where it tries.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{folder}/bin"]
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def _network_config() -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "isDefaultGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        # No `routes`: isDefaultGateway adds the one there is, and twice is an error.
        "ipam": {"type": "host-local", "ranges": [[{"subnet": _POD_SUBNET}]]},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, portmap]}


def _kubelet_config(node: Node) -> dict[str, object]:
    pki = node.site.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        # Machines with the first version of cgroups do as well, with a warning.
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(node.folder / "resolv.conf"),
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": str(node.folder / "plugins"),
        # The disk is the machine's: its state is no reason to evict a pod or to drop an image
        # that no registry could give back.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "nodefs.available": "0%",
            "imagefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "maxPods": 110,
        # A pod that got ready is seen at once, not with the next minute.
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "serializeImagePulls": False,
    }


def _proxy_config(node: Node) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(node.site.kubeconfig("kube-proxy"))},
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": NODE,
        "mode": "iptables",
        # Limits of the whole machine are not for a cluster to set.
        "conntrack": {
            "maxPerCore": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "oomScoreAdj": 0,
        "metricsBindAddress": "",
    }
