"""Real platforms. Skips live here and nowhere else: a tier whose platform is missing says so.

`scripts/test` runs tests of a tier side by side. One that is marked `alone` waits until no other
test of this checkout runs, and the others wait for it.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import engines as private
import image
import kube
import machine_users
import operators
import pytest
from campaign.places import LosesPower, able
from testcluster import layout

from headway.backend.local.enforcement.cgroup import Cgroup1, Cgroup2, Unavailable
from headway.deploy import render
from headway.deploy.render import Values
from headway.spec.manifest import NAME

TURNS = Path(__file__).parents[2] / ".pytest_cache"
KINDS = {"cgroup1": Cgroup1, "cgroup2": Cgroup2}
EXCUSES = ("capability not declared", "tool not installed")

for name in [n for n in os.environ if n.startswith("OPENBLAS_")]:
    del os.environ[name]  # containers and pods have none: a training must compute the same there


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Take turns. A test that waits to be alone holds the gate, so that no other begins."""
    how = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
    TURNS.mkdir(exist_ok=True)
    with ExitStack() as held:
        with (TURNS / "gate").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            turn = held.enter_context((TURNS / "turn").open("w"))
            fcntl.flock(turn, how)
        return (yield)


@pytest.fixture(autouse=True)
def own_registry(tmp_path_factory, monkeypatch):
    """Runs of tests that run side by side promise memory independently of each other."""
    monkeypatch.setenv("HEADWAY_REGISTRY", str(tmp_path_factory.mktemp("registry") / "runs"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """A case that lacks its platform fails if HEADWAY_REQUIRE names its tier. A capability that a
    platform does not declare is no lack, and a tool beside it is not the platform.
    """
    report = yield
    tier = item.path.stem.removeprefix("test_").partition("_")[0]
    if report.skipped and tier in os.environ.get("HEADWAY_REQUIRE", "").split(","):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(excuse in why for excuse in EXCUSES):
            report.outcome, report.longrepr = "failed", f"{tier} is required. {why}"
    return report


@pytest.fixture(params=["cgroup", pytest.param("nice", marks=pytest.mark.long)])
def enforcement(request, monkeypatch):
    """Each kind of enforcement that this machine has; cgroups of either version count as one."""
    kind = request.param
    if kind == "cgroup":
        kind = next((k for k in KINDS if _has(k)), None)
        if kind is None:
            pytest.skip("no writable cgroup here: run as root, or in a delegated scope")
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", kind)
    return kind


@pytest.fixture
def loop_device():
    if not able(LosesPower):
        pytest.skip("no loop device here: run as root")


class Given:
    """The engine that DOCKER_HOST names, as the tests want one."""

    create = private.PrivateEngine.create
    inspect = private.PrivateEngine.inspect
    load = private.PrivateEngine.load

    def __init__(self, url):
        self.url, self.client = url, private.Client(url)
        self.client.hello()
        self.load()

    def containers(self):
        """Ours: others may have theirs there."""
        ours = {"label": ["headway.dev/run"]}
        return [c["Id"] for c in self.client.get("/containers/json", all=True, filters=ours)]

    def close(self):
        self.client.delete(f"/images/{image.NAME}", force=True)


@pytest.fixture(scope="session")
def engines():
    """Two engines: of our own, or twice the one that DOCKER_HOST names."""
    given = os.environ.get("DOCKER_HOST")
    if given:
        one = Given(given)
        yield one, one
        one.close()
        return
    why = private.missing()
    if why:
        pytest.skip(why)
    made = []
    try:
        made.append(private.PrivateEngine("a"))
        made.append(private.PrivateEngine("b"))
        yield tuple(made)
    finally:
        for each in made:
            each.close()
    assert [each.left() for each in made] == [[], []]


@contextmanager
def private_engines():
    """A function that makes engines of our own."""
    why = private.missing()
    if why:
        pytest.skip(why)
    made = []

    def make(**more):
        made.append(private.PrivateEngine("c", **more))
        return made[-1]

    try:
        yield make
    finally:
        for each in made:
            each.close()
    assert [each.left() for each in made] == [[] for _ in made]


@pytest.fixture
def private_engine():
    """One engine for this test alone, which may be stopped; a function that makes it."""
    with private_engines() as make:
        yield make


@pytest.fixture(scope="module")
def one_cpu_engine():
    """An engine that has one CPU."""
    with private_engines() as make:
        yield make(cpus=[max(os.sched_getaffinity(0))])


@pytest.fixture
def far_network():
    """A network namespace, as if it were another machine, and its address."""
    if shutil.which("ip") is None:
        pytest.skip("tool not installed: apt-get install iproute2")
    name, octet = f"hw-{os.getpid()}", os.getpid() % 250
    here, there = f"hwa{os.getpid()}", f"hwb{os.getpid()}"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        _ip("address", "add", f"10.231.{octet}.1/30", "dev", here)
        _ip("link", "set", here, "up")
        _ip("-n", name, "address", "add", f"10.231.{octet}.2/30", "dev", there)
        for device in ("lo", there):
            _ip("-n", name, "link", "set", device, "up")
        yield name, f"10.231.{octet}.2"
    finally:
        _ip("netns", "delete", name)


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


@pytest.fixture(scope="session")
def own_cluster():
    """Four nodes of our own; None: KUBECONFIG names a cluster."""
    if os.environ.get("KUBECONFIG"):
        yield None
        return
    why = kube.missing()
    if why:
        pytest.skip(why)
    kube.sweep()
    made = kube.Private(f"pytest-{os.getpid()}", nodes=4)
    try:
        made.up()
        yield made
    finally:
        made.down()
    assert made.left() == []


@pytest.fixture(scope="session")
def cluster(own_cluster):
    return own_cluster.kube if own_cluster else kube.Kube(os.environ["KUBECONFIG"])


@pytest.fixture
def doomed_cluster(own_cluster):
    """For the one test that breaks it; see `pytest_collection_modifyitems`."""
    if own_cluster is None:
        pytest.skip("somebody else's cluster is not broken for a test")
    return own_cluster


def pytest_collection_modifyitems(items):
    """Tests that share an installation come after those that need a cluster without one, and a test
    that breaks the cluster comes last.
    """
    items.sort(
        key=lambda item: [
            name in getattr(item, "fixturenames", ())
            for name in ("doomed_cluster", "installed_operator")
        ]
    )


@pytest.fixture
def new_cluster():
    """One node for this test alone; it is not up yet."""
    why = kube.missing()
    if why:
        pytest.skip(why)
    made = kube.Private(f"broken-{os.getpid()}", nodes=1)
    yield made
    made.down()
    assert made.left() == []


@pytest.fixture(scope="session")
def kubectl(cluster):
    return kube.Kubectl(cluster)


@pytest.fixture(scope="session")
def installed_operator(cluster):
    """All that we ship but the Deployment: the operator runs here, where its image is. Tests that
    install the chart come before this; see `pytest_collection_modifyitems`.
    """
    chosen = Values(namespace=operators.HOME, agent_namespace="")
    made = [o for o in render.stream(chosen) if o["kind"] != "Deployment"]
    cluster.apply(*made)
    cluster.until(lambda: cluster.run("get", "tj").returncode == 0)
    token = cluster(
        "create", "token", "headway", "--namespace", operators.HOME, "--duration", "24h"
    ).strip()
    yield token
    cluster("delete", "crd", NAME)
    for each in made:
        if each["kind"] in ("ClusterRole", "ClusterRoleBinding", "PriorityClass"):
            cluster("delete", each["kind"], each["metadata"]["name"])
    cluster("delete", "namespace", operators.HOME, "--timeout=60s")


@pytest.fixture(scope="module")
def operator(cluster, installed_operator, tmp_path_factory):
    made = operators.Operator(
        cluster, tmp_path_factory.mktemp("operator"), installed_operator
    ).start()
    cluster.until(lambda: " leads" in made.log())
    yield made
    assert made.end() == 0, made.log()


@pytest.fixture
def jobs(cluster, operator):
    """Submit and look; what a test made goes with it."""
    found = operators.Jobs(cluster, operator)
    yield found
    cluster.clear("trainingjobs")
    cluster.clear("pods", gracePeriodSeconds=0)


@pytest.fixture(scope="session")
def torch_python():
    """An interpreter with PyTorch: HEADWAY_TORCH_PYTHON, or Debian's, which is a small build
    without CUDA.
    """
    python = os.environ.get("HEADWAY_TORCH_PYTHON", "/usr/bin/python3")

    def imports():
        done = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
        return done.returncode == 0

    if not imports():
        required = "local" in os.environ.get("HEADWAY_REQUIRE", "").split(",")
        if not required or os.getuid() or not Path("/etc/debian_version").exists():
            pytest.skip("tool not installed: apt-get install python3-torch")
        kube.binaries.apt_install(["python3-torch"])
        assert imports()
    return python


@pytest.fixture(scope="session")
def tensorflow():
    """The directory of TensorFlow, for PYTHONPATH; installed once, outside the checkout."""
    package = "tensorflow-cpu==2.20.0"
    folder = layout.cache() / f"{package.replace('==', '-')}-cp{sys.version_info.minor}"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target"]
        if "local" not in os.environ.get("HEADWAY_REQUIRE", "").split(","):
            pytest.skip(f"tool not installed: pip install --target {folder} {package}")
        fresh = folder.with_suffix(f".{os.getpid()}")
        subprocess.run([*pip, str(fresh), package], check=True)
        fresh.rename(folder)
    return str(folder)


@pytest.fixture(scope="session")
def helm():
    """The program; with a cluster of somebody else's it may be missing."""
    found = kube.binaries.find("helm")
    if found is None:
        pytest.skip("tool not installed: scripts/cluster build makes it, once")
    return str(found)


def _has(kind):
    try:
        found = KINDS[kind](f"probe-{os.getpid()}")
    except Unavailable:
        return False
    found.close()
    return True


@pytest.fixture
def machine():
    """A server for all users of the machine, not started yet."""
    if os.geteuid():
        pytest.skip("only root can serve several users")
    with machine_users.machine_server() as made:
        yield made
