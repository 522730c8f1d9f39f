"""etcd, kube-apiserver and what else makes a control plane, as processes of this machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.client import Client, write_kubeconfig
from hack.cluster.failure import ClusterError
from hack.cluster.pki import Authority, new_signing_pair
from hack.cluster.ports import LOOPBACK, pick_ports
from hack.cluster.processes import Launcher, Started, wait_until
from hack.tools.finder import find

SERVICE_RANGE = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
POD_RANGE = "10.244.0.0/16"
_HOSTS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# RetryPolicy for a machine that is busy with other things: a part that ends is noticed at once.
_READY_SECONDS = 200

TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm")
# What an API server without nodes needs for namespaces to come with a service account and to go,
# for owners to take with them what they own, and for roles such as `view` to hold any rights.
WITHOUT_NODES = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)


@dataclass(frozen=True)
class Ports:
    """Where the parts of a control plane listen."""

    api: int = 6443
    etcd: int = 2379
    etcd_peer: int = 2380


@dataclass(frozen=True)
class Site:
    """Where a control plane lives and how it is reached."""

    folder: Path
    ports: Ports
    # The address in the endpoints of Service `kubernetes`; None: there are no nodes to reach it.
    node_address: str | None = None
    controllers: tuple[str, ...] = ("*",)

    @property
    def url(self) -> str:
        """Return the URL of the API server."""
        return f"https://{LOOPBACK}:{self.ports.api}"

    @property
    def pki(self) -> Path:
        """Return the folder of keys and certificates."""
        return self.folder / "pki"

    def kubeconfig(self, name: str) -> Path:
        """Return the path of a user's kubeconfig."""
        return self.folder / f"{name}.kubeconfig"


def free_ports() -> Ports:
    """Return ports that nothing listens on now."""
    return Ports(*pick_ports(3))


def write_identities(site: Site) -> Authority:
    """Write every key, certificate and kubeconfig of a control plane; return who signed them."""
    site.pki.mkdir(parents=True)
    authority = Authority()
    authority.own.write(site.pki, "ca")
    addresses = [LOOPBACK, FIRST_SERVICE_ADDRESS, *filter(None, [site.node_address])]
    server = authority.issue("kube-apiserver", addresses=addresses, hosts=_HOSTS)
    server.write(site.pki, "apiserver")
    authority.issue("kube-apiserver-kubelet-client", groups=["system:masters"]).write(
        site.pki, "apiserver-kubelet-client"
    )
    private, public = new_signing_pair()
    (site.pki / "service-accounts.key").touch(mode=0o600)
    (site.pki / "service-accounts.key").write_bytes(private)
    (site.pki / "service-accounts.pub").write_bytes(public)
    write_user(site, authority, "admin", groups=["system:masters"])
    for part in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
        write_user(site, authority, part, name=f"system:{part}")
    return authority


def write_user(
    site: Site, authority: Authority, file: str, *, name: str = "", groups: Sequence[str] = ()
) -> Path:
    """Write the kubeconfig of a user who proves who he is by a certificate."""
    user = authority.issue(name or file, groups=groups)
    return write_kubeconfig(site.kubeconfig(file), site.url, authority.own.certificate, user)


def etcd_command(site: Site) -> list[str | Path]:
    """Return the command line of etcd; what it holds is not worth a sync to disk."""
    client = f"http://{LOOPBACK}:{site.ports.etcd}"
    peer = f"http://{LOOPBACK}:{site.ports.etcd_peer}"
    return [
        find("etcd"),
        "--unsafe-no-fsync",
        f"--data-dir={site.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def apiserver_command(site: Site) -> list[str | Path]:
    """Return the command line of kube-apiserver."""
    pki = site.pki
    reached = (
        [f"--advertise-address={site.node_address}"]
        if site.node_address
        # A loopback address may not be an endpoint, and nobody would come there.
        else [
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",
        ]
    )
    return [
        find("kube-apiserver"),
        *reached,
        f"--secure-port={site.ports.api}",
        f"--etcd-servers=http://{LOOPBACK}:{site.ports.etcd}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
    ]


def manager_command(site: Site) -> list[str | Path]:
    """Return the command line of kube-controller-manager."""
    pki = site.pki
    return [
        find("kube-controller-manager"),
        f"--kubeconfig={site.kubeconfig('kube-controller-manager')}",
        f"--service-account-private-key-file={pki / 'service-accounts.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--use-service-account-credentials=true",
        "--allocate-node-cidrs=true",
        f"--cluster-cidr={POD_RANGE}",
        f"--controllers={','.join(site.controllers)}",
        "--leader-elect=false",
        # It serves nothing that anybody here asks for.
        "--secure-port=0",
    ]


def _nothing_more(admin: Client) -> None:
    """Leave the API server as it comes."""


def start_control_plane(
    site: Site, launcher: Launcher, *, before_controllers: Callable[[Client], None] = _nothing_more
) -> list[Started]:
    """Start etcd, the API server and the controller manager; return when the API is ready.

    What was started is stopped again when it does not get ready.

    before_controllers: makes what they have to find. The collector of garbage looks for new kinds
    at its start and then twice a minute: until then nothing of theirs goes with its owner.
    """
    admin = Client(site.kubeconfig("admin"), launcher.prefix)
    started: list[Started] = []
    try:
        started.append(launcher.start("etcd", etcd_command(site)))
        started.append(launcher.start("kube-apiserver", apiserver_command(site)))
        wait_until(
            lambda: answers(admin, "get", "--raw=/readyz"),
            "the API server was ready",
            needs=started,
            seconds=_READY_SECONDS,
        )
        before_controllers(admin)
        started.append(launcher.start("kube-controller-manager", manager_command(site)))
        wait_until(
            lambda: answers(admin, "get", "serviceaccount", "default"),
            "namespace default had its service account",
            needs=started,
            seconds=_READY_SECONDS,
        )
    except BaseException:
        stop_control_plane(started)
        raise
    return started


def stop_control_plane(started: Sequence[Started]) -> None:
    """Stop what was started, the last one first."""
    for one in reversed(started):
        one.stop()


def answers(client: Client, *arguments: str) -> bool:
    """Return whether kubectl gets an answer."""
    try:
        client.kubectl(*arguments, "--request-timeout=5s")
    except ClusterError:
        return False
    return True
