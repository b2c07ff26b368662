"""The programs of Kubernetes: those that are there, else built once from the Go module registry.

Each is looked for in KUBEBUILDER_ASSETS, in the cache and on the PATH, in this order. What Debian
packages is installed from there: etcd, containerd, runc, the plug-ins of the pod network.
"""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

from testcluster.layout import Trouble, cache, say

VERSION, STAGING = "v1.34.10", "v0.34.10"
COREDNS = "v1.12.4"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
PACKAGES = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "openssl": "openssl",
    "busybox": "busybox-static",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
DNS = """package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
	coremain.Run()
}
"""
"""CoreDNS with the three plug-ins that a cluster needs, instead of all."""


def kept() -> Path:
    return cache() / f"kubernetes-{VERSION}"


def find(name: str) -> Path | None:
    given = os.environ.get("KUBEBUILDER_ASSETS")
    for place in filter(None, (given, kept())):
        if (Path(place) / name).is_file():
            return Path(place) / name
    there = shutil.which(name)
    return Path(there) if there else None


def programs() -> dict[str, Path]:
    """All of them, by name; builds what is missing."""
    names = (*PROGRAMS, "coredns")
    missing = [name for name in names if find(name) is None]
    if missing:
        _build(missing)
    return {name: path for name in names if (path := find(name)) is not None}


def missing() -> str:
    """Why there can be no cluster here; "": there can (perhaps after a build)."""
    if os.getuid():
        return "no cluster of its own without root; KUBECONFIG may name one"
    lacking = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if lacking and not Path("/etc/debian_version").exists():
        return f"needed, as Debian calls them: {', '.join(lacking)}"
    if not shutil.which("go") and any(find(name) is None for name in PROGRAMS):
        return "no Kubernetes programs here: install Go, or set KUBEBUILDER_ASSETS"
    return ""


def install() -> None:
    lacking = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if not lacking:
        return
    say(f"installs {', '.join(lacking)}")
    words = ["apt-get", "install", "--yes", "--no-install-recommends", *lacking]
    # Their services are not to be started: ours have folders of their own.
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    if subprocess.run(words, env=env, check=False, stdout=subprocess.DEVNULL).returncode:
        subprocess.run(["apt-get", "update"], env=env, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)


def _build(names: list[str]) -> None:
    if not shutil.which("go"):
        raise Trouble("no Go here to build Kubernetes with: install it, or set KUBEBUILDER_ASSETS")
    kept().mkdir(parents=True, exist_ok=True)
    with (kept() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in [name for name in names if find(name) is None]:
            say(f"builds {name} {COREDNS if name == 'coredns' else VERSION}, once")
            folder = kept() / "src" / ("coredns" if name == "coredns" else "kubernetes")
            folder.mkdir(parents=True, exist_ok=True)
            package = _coredns(folder) if name == "coredns" else _kubernetes(folder, name)
            _go(
                [
                    "build",
                    "-mod=mod",
                    "-trimpath",
                    *_flags(),
                    "-o",
                    f"{kept()}/{name}.part",
                    package,
                ],
                folder,
            )
            (kept() / f"{name}.part").rename(kept() / name)


def _flags() -> list[str]:
    major, minor, _ = VERSION[1:].split(".")
    at = "k8s.io/component-base/version"
    said = {"gitVersion": VERSION, "gitMajor": major, "gitMinor": minor}
    return ["-ldflags", " ".join(["-s", "-w", *(f"-X {at}.{k}={v}" for k, v in said.items())])]


def _kubernetes(folder: Path, name: str) -> str:
    """A module of our own, in which each staging module is its release."""
    told = json.loads(_go(["mod", "download", "-json", f"k8s.io/kubernetes@{VERSION}"], folder))
    lines = [line.split() for line in Path(told["GoMod"]).read_text().splitlines()]
    go = next(words[1] for words in lines if words[:1] == ["go"])
    staged = [words[0] for words in lines if len(words) == 3 and words[2].startswith("./staging/")]
    text = [f"module headway.dev/testcluster\ngo {go}\nrequire k8s.io/kubernetes {VERSION}"]
    text += [f"replace {module} => {module} {STAGING}" for module in staged]
    if not (folder / "go.mod").exists():
        (folder / "go.mod").write_text("\n".join(text) + "\n")
    return f"k8s.io/kubernetes/cmd/{name}"


def _coredns(folder: Path) -> str:
    (folder / "main.go").write_text(DNS)
    if not (folder / "go.mod").exists():
        wanted = f"require github.com/coredns/coredns {COREDNS}"
        (folder / "go.mod").write_text(f"module headway.dev/testdns\ngo 1.24.0\n{wanted}\n")
    return "."


def _go(words: list[str], folder: Path) -> str:
    env = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        ["nice", "-n", "15", "go", *words],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Trouble(f"go {words[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
