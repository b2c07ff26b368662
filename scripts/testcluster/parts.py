"""The programs of a cluster and their configuration."""

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml

from testcluster import groups, images
from testcluster.layout import PAUSE, Layout, Trouble

READY = 60.0
USER, KUBELETS = "headway-test", "system:kubelet-api-admin"
"""Name in the certificate of the API server, and the role that it needs."""
CONTAINERD = """version = 2
root = "{folder}/root"
state = "{folder}/state"
oom_score = 0
[grpc]
 address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
 sandbox_image = "{pause}"
 restrict_oom_score_adj = true
 netns_mounts_under_state_dir = true
 stream_server_port = "0"
 [plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{folder}/cni"
[plugins."io.containerd.internal.v1.opt"]
 path = "{folder}/opt"
"""
DNS = """.:53 {{
 bind {address}
 errors
 kubernetes cluster.local {{
  kubeconfig {kubeconfig}
  ttl 0
 }}
}}
"""


ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@"'
"""Shell script: join the cgroups, then execute the program."""


class Cluster:
    def __init__(self, layout: Layout, programs: dict[str, Path]) -> None:
        self.layout, self.programs, self.root = layout, programs, layout.root
        self.etcd, self.peer = free_ports(2)
        self.images: list[images.Image] = []

    # -- configuration -----------------------------------------------------------------------------

    def write_secrets(self) -> None:
        key = ["-newkey", "rsa:2048", "-nodes", "-keyout", f"{self.root}/tls.key"]
        about = ["-subj", f"/CN={USER}", "-days", "30", "-out", f"{self.root}/tls.crt"]
        names = ["-addext", f"subjectAltName=IP:{self.layout.api},DNS:kubernetes.default.svc"]
        _call(["openssl", "req", "-x509", *key, *about, *names])
        token = secrets.token_hex(16)
        (self.root / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        here = {"server": f"https://{self.layout.api}"}
        here["certificate-authority"] = f"{self.root}/tls.crt"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": here}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
        self.layout.kubeconfig.write_text(yaml.safe_dump(config))

    def kubelet(self, i: int, cpu: float, nodes: int) -> dict[str, Any]:
        folder, total = (
            self.layout.folder(i),
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        )
        kept = total - total // (nodes + 1)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{self.root}/tls.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "address": self.layout.address(i),
            "healthzPort": 0,
            "readOnlyPort": 0,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.layout.group}/{self.layout.node(i)}",
            "enforceNodeAllocatable": ["pods"],
            "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
            "podLogsDir": f"{folder}/logs",
            "clusterDNS": [self.layout.address(1)],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "containerLogMaxSize": os.environ.get("HEADWAY_CLUSTER_LOG_SIZE", "1Mi"),
            "containerLogMonitorInterval": "3s",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi"},
            "systemReserved": {
                "cpu": f"{round(1000 * (os.cpu_count() - cpu))}m",
                "memory": str(kept),
            },
            "nodeStatusUpdateFrequency": "5s",
            "syncFrequency": "10s",
            "volumeStatsAggPeriod": "-1s",
            "maxPods": 60,
        }

    # -- start -------------------------------------------------------------------------------------

    def network(self, nodes: int) -> None:
        """Make a bridge for each node. The first also has the address of the service `kubernetes`:
        pods reach it without kube-proxy.
        """
        for i in range(1, nodes + 1):
            bridge, address = self.layout.bridge(i), self.layout.address(i)
            # Otherwise, its address is the lowest of its pods. When that one came or went, others
            # could not connect for up to 32 s, because they knew the former address.
            fixed = "0a:58:" + ":".join(f"{int(part):02x}" for part in address.split("."))
            _call(["ip", "link", "add", bridge, "address", fixed, "type", "bridge"])
            # The CNI plugin accepts a bridge only if this is its first address.
            _call(["ip", "address", "add", f"{address}/24", "dev", bridge])
            _call(["ip", "link", "set", bridge, "up"])
        _call(["ip", "address", "add", f"{self.layout.api}/32", "dev", self.layout.bridge(1)])

    def control_plane(self) -> None:
        url, peer = f"http://127.0.0.1:{self.etcd}", f"http://127.0.0.1:{self.peer}"
        self.start("etcd", "/usr/bin/etcd", {
            "data-dir": self.root / "etcd", "listen-client-urls": url, "advertise-client-urls": url,
            "listen-peer-urls": peer, "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}", "unsafe-no-fsync": "true", "logger": "zap",
        })  # fmt: skip
        tls = {name: self.root / f"tls.{end}" for name, end in (("cert", "crt"), ("key", "key"))}
        self.start("kube-apiserver", self.programs["kube-apiserver"], {
            "etcd-servers": url, "cert-dir": self.root / "certs", "secure-port": 443,
            "bind-address": self.layout.api, "advertise-address": self.layout.api,
            "tls-cert-file": tls["cert"], "tls-private-key-file": tls["key"],
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": tls["key"], "service-account-signing-key-file": tls["key"],
            "token-auth-file": self.root / "tokens.csv", "authorization-mode": "RBAC",
            "service-cluster-ip-range": self.layout.services, "allow-privileged": "true",
            "endpoint-reconciler-type": "none",
            "kubelet-preferred-address-types": "InternalIP",
            "kubelet-client-certificate": tls["cert"], "kubelet-client-key": tls["key"],
        })  # fmt: skip
        self.until(lambda: self.kubectl("get", "--raw", "/readyz") == "ok", "kube-apiserver")
        # The API server itself, for logs and exec: kubelets ask it who may use them.
        role = ("clusterrolebinding", "kubelet-api", f"--clusterrole={KUBELETS}", f"--user={USER}")
        self.until(lambda: self.kubectl("create", *role), "kube-apiserver")
        known = {"kubeconfig": self.layout.kubeconfig, "leader-elect": "false", "secure-port": 0}
        self.start("kube-controller-manager", self.programs["kube-controller-manager"], {
            **known, "service-account-private-key-file": tls["key"],
            "use-service-account-credentials": "true", "root-ca-file": tls["cert"],
            "horizontal-pod-autoscaler-sync-period": "2s",
        })  # fmt: skip
        self.start("kube-scheduler", self.programs["kube-scheduler"], known)
        where = {"address": self.layout.address(1), "kubeconfig": self.layout.kubeconfig}
        (self.root / "Corefile").write_text(DNS.format(**where))
        self.start("coredns", self.programs["coredns"], {"conf": self.root / "Corefile"}, dash="-")

    def runtime(self, i: int) -> None:
        """Start the containerd of a node, and import the images."""
        folder, bridge = self.layout.folder(i), self.layout.bridge(i)
        (folder / "cni").mkdir(parents=True)
        (folder / "containerd.toml").write_text(CONTAINERD.format(folder=folder, pause=PAUSE))
        subnet = {"subnet": f"{self.layout.subnet(i)}.0/24", "routes": [{"dst": "0.0.0.0/0"}]}
        ipam = {"type": "host-local", "dataDir": f"{folder}/addresses", **subnet}
        plugin = {"type": "bridge", "bridge": bridge, "isGateway": True, "ipMasq": False}
        network = {"cniVersion": "0.4.0", "name": self.layout.network(i)}
        network["plugins"] = [{**plugin, "ipam": ipam}]
        (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(network))
        self.start(f"containerd-{i}", "/usr/bin/containerd", {"config": folder / "containerd.toml"})
        listens = folder / "containerd.sock"
        self.until(lambda: _answers(listens), f"containerd-{i}")
        images.load(listens, self.images)

    def node(self, i: int, cpu: float, nodes: int) -> None:
        folder = self.layout.folder(i)
        (folder / "kubelet.yaml").write_text(yaml.safe_dump(self.kubelet(i, cpu, nodes)))
        self.start(f"kubelet-{i}", self.programs["kubelet"], {
            "config": folder / "kubelet.yaml", "kubeconfig": self.layout.kubeconfig,
            "root-dir": folder / "kubelet",
                "cert-dir": folder / "pki", "hostname-override": self.layout.node(i),
            "node-ip": self.layout.address(i),
        })  # fmt: skip

    # -- processes ---------------------------------------------------------------------------------

    def start(
        self, name: str, program: Path | str, options: dict[str, Any], dash: str = "--"
    ) -> None:
        """Start a program in the cgroup of the control plane; it survives this process."""
        words = ["sh", "-c", ENTER, name, *groups.files(self.layout, "control"), "--", str(program)]
        for key, value in options.items():
            words += [f"{dash}{key}={value}"] if dash == "--" else [f"{dash}{key}", str(value)]
        with (self.root / f"{name}.log").open("ab") as log:
            made = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd=self.root,
            )  # fmt: skip
        (self.root / f"{name}.pid").write_text(str(made.pid))

    def kubectl(self, *words: str) -> str:
        given = [str(self.programs["kubectl"]), "--kubeconfig", str(self.layout.kubeconfig)]
        done = subprocess.run([*given, *words], capture_output=True, text=True, check=False)
        return done.stdout if not done.returncode else ""

    def ready(self) -> list[str]:
        """Return the names of ready nodes."""
        path = "{.metadata.name} {.status.conditions[?(@.type=='Ready')].status}"
        path = f"{{range .items[*]}}{path}{{'\\n'}}{{end}}"
        said = self.kubectl("get", "nodes", "-o", f"jsonpath={path}")
        return [line.removesuffix(" True") for line in said.splitlines() if line.endswith(" True")]

    def until(self, claim: Any, part: str) -> None:
        end = monotonic() + READY
        while not claim():
            pid = int((self.root / f"{part}.pid").read_text())
            if monotonic() > end or not alive(pid):
                log = (self.root / f"{part}.log").read_text(errors="replace")
                raise Trouble(f"{part} did not start; its log ends with:\n{log[-1500:]}")
            sleep(0.1)


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def free_octet() -> int:
    """Return N such that 10.N.0.0/16 is unused on this machine, from 128 up (rarely used)."""
    said = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True)
    here = {word for line in said.stdout.splitlines() for word in line.split() if "/" in word}
    taken = {int(a.split(".")[1]) for a in here if a.startswith("10.")}
    return next(n for n in range(128, 256) if n not in taken)


def free_ports(count: int) -> Sequence[int]:
    """Return free ports below the ephemeral range, so that no other connection takes them."""
    ports: dict[int, None] = {}
    while len(ports) < count:
        port = 20_000 + secrets.randbelow(10_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports[port] = None
    return list(ports)


def _answers(listens: Path) -> bool:
    words = ["ctr", "--address", str(listens), "--timeout", "2s", "version"]
    return (
        listens.exists() and not subprocess.run(words, capture_output=True, check=False).returncode
    )


def _call(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"{' '.join(words)}: {done.stderr.strip()}")
