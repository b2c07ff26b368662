"""The test cluster itself: it is real, and it leaves nothing behind."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import image

from headway.backend.local.enforcement.cgroupfs import hierarchies


def pod(name, text):
    inside = {"name": "main", "image": image.NAME, "command": ["python3", "-c", text]}
    inside["resources"] = {"requests": {"cpu": "50m"}}
    spec = {"containers": [inside], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_pods_of_different_nodes_find_each_other_by_name(cluster):
    """Images, the pod network across nodes, services and names: what a distributed job needs."""
    serves = "import socket; s = socket.create_server(('', 7000)); s.accept()[0].sendall(b'here')"
    asks = (
        "import socket, time\n"
        "for _ in range(100):\n"
        "    try: print(socket.create_connection(('a.pair', 7000), 5).recv(9).decode()); break\n"
        "    except OSError: time.sleep(0.2)\n"
    )
    both = [pod("a", serves), pod("b", asks)]
    nodes = [n["metadata"]["name"] for n in cluster.get("nodes")["items"]]
    for each, node in zip(both, (nodes[0], nodes[-1]), strict=True):
        each["metadata"]["labels"] = {"pair": "yes"}
        each["spec"] |= {
            "nodeName": node,
            "hostname": each["metadata"]["name"],
            "subdomain": "pair",
        }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pair"}}
    service["spec"] = {"clusterIP": "None", "selector": {"pair": "yes"}}
    service["spec"]["publishNotReadyAddresses"] = True
    cluster.apply(service, *both)
    try:
        cluster.until(lambda: cluster.get("pods", "b")["status"]["phase"] == "Succeeded")
        assert cluster.log("b").strip() == "here"
    finally:
        cluster("delete", "pod/a", "pod/b", "service/pair", "--grace-period=0", "--force")


def test_a_cluster_that_does_not_come_up_leaves_nothing(new_cluster, tmp_path):
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho it is broken; exit 1\n")
    broken.chmod(0o755)
    done = new_cluster.try_up(KUBEBUILDER_ASSETS=str(tmp_path))
    assert done.returncode == 1
    assert "kube-apiserver did not start" in done.stderr
    assert "it is broken" in done.stderr
    assert new_cluster.left() == []


def test_what_has_died_is_taken_away_too(new_cluster):
    new_cluster.up()
    layout, kube = new_cluster.layout, new_cluster.kube
    top = next(h.mount for h in hierarchies() if h.version == 2 or "cpu" in h.controllers)
    control, node = (Path(top, layout.group, name) for name in ("control", "node-1"))
    weight = next(f for f in ("cpu.shares", "cpu.weight") if (control / f).exists())
    assert int((control / weight).read_text()) > int((node / weight).read_text())
    address = Path("/sys/class/net", layout.bridge(1), "address")
    before = address.read_text()
    kube.apply(pod("lives", "import time; time.sleep(1000)"))
    kube.until(lambda: kube.get("pods", "lives")["status"]["phase"] == "Running")
    assert address.read_text() == before, "pods know it"
    assert new_cluster.processes("python3")
    for word in ("kubelet", "containerd-shim", "containerd", "etcd"):
        found = new_cluster.processes(word)
        assert found, word
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    said = new_cluster.status()
    assert said.returncode == 1
    assert "DEAD" in said.stdout
    kinds = {line.split()[0] for line in new_cluster.left()}
    assert kinds >= {"process", "mount", "bridge", "group", "directory"}
    new_cluster.down()
    assert new_cluster.left() == []
    new_cluster.down()  # twice does no harm
