"""Real platforms. Skips live here and nowhere else: a tier whose platform is missing says so."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import engines as private
import image
import pytest

from headway.backend.local.cgroup import Cgroup1, Cgroup2, Unavailable

KINDS = {"cgroup1": Cgroup1, "cgroup2": Cgroup2}


@pytest.fixture(params=["cgroup", "nice"])
def enforcement(request, monkeypatch):
    """Each kind of enforcement that this machine has; cgroups of either version count as one."""
    kind = request.param
    if kind == "cgroup":
        kind = next((k for k in KINDS if _has(k)), None)
        if kind is None:
            pytest.skip("no cgroup is ours to use here: run as root, or in a delegated scope")
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", kind)
    return kind


class Given:
    """The engine that DOCKER_HOST names, as the tests want one."""

    create = private.PrivateEngine.create
    inspect = private.PrivateEngine.inspect
    load = private.PrivateEngine.load

    def __init__(self, url):
        self.url, self.client = url, private.Client(url)
        self.client.hello()
        self.load()

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


@pytest.fixture
def private_engine():
    """One engine for this test alone, which may be stopped; a function that makes it."""
    why = private.missing()
    if why:
        pytest.skip(why)
    made = []

    def make(**more):
        made.append(private.PrivateEngine("c", **more))
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert [each.left() for each in made] == [[] for _ in made]


class Cluster:
    """The cluster that KUBECONFIG names, else one of our own, spoken to as people do."""

    def __init__(self, config):
        self.config, self.program = config, _program("kubectl")

    def __call__(self, *words, given=None):
        """Run kubectl; what is `given` goes in as a file."""
        more = ["-f", "-"] if given is not None else []
        return subprocess.run(
            [self.program, "--kubeconfig", self.config, *map(str, words), *more],
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def done(self, *words, given=None):
        """It must go well; what it printed."""
        ran = self(*words, given=given)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture(scope="session")
def kubectl():
    config = os.environ.get("KUBECONFIG")
    if config:
        yield Cluster(config)
        return
    script = Path(__file__).parents[2] / "scripts" / "cluster"
    if not script.exists() or os.getuid():
        pytest.skip("no cluster: set KUBECONFIG, or run as root")
    name = f"test-{os.getpid()}"
    try:
        made = subprocess.run(
            [script, "up", "--name", name, "--nodes", "1"],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            pytest.skip(f"no cluster: {made.stderr.strip().splitlines()[-1]}")
        yield Cluster(made.stdout.strip().splitlines()[-1])
    finally:
        subprocess.run([script, "down", "--name", name], check=True)


@pytest.fixture(scope="session")
def helm():
    """The program, which is not needed for anything but to see that our chart is one."""
    found = _program("helm")
    if found is None:
        pytest.skip("no helm: go install helm.sh/helm/v3/cmd/helm@v3.19.0")
    return found


def _program(name):
    """Where the cluster's own programs are kept, else on the PATH."""
    kept = Path(os.environ.get("HEADWAY_CACHE") or Path.home() / ".cache" / "headway")
    places = [os.environ.get("KUBEBUILDER_ASSETS"), *kept.glob("kubernetes-*"), kept]
    path = os.pathsep.join([*map(str, filter(None, places)), os.environ["PATH"]])
    return shutil.which(name, path=path)


def _has(kind):
    try:
        found = KINDS[kind](f"probe-{os.getpid()}")
    except Unavailable:
        return False
    found.close()
    return True
