"""Find the Kubernetes programs, or build them once from the Go module registry.

Each is searched in KUBEBUILDER_ASSETS, the cache and the PATH, in this order. Debian packages
provide etcd, containerd, runc and the network plug-ins.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from testcluster.layout import Trouble, cache, say

VERSION, STAGING = "v1.34.10", "v0.34.10"
COREDNS, HELM = "v1.12.4", "v3.19.0"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
OTHERS = {"coredns": COREDNS, "helm": HELM}
LOCKED = 600
"""Seconds to wait for another program that installs packages."""
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
"""CoreDNS with only the three plug-ins that the cluster needs."""


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
    """Return the path of each program; build missing ones."""
    names = (*PROGRAMS, *OTHERS)
    missing = [name for name in names if find(name) is None]
    if missing:
        _build(missing)
    return {name: path for name in names if (path := find(name)) is not None}


def missing() -> str:
    """Return why a cluster cannot be started here; "" if it can (perhaps after a build)."""
    if os.getuid():
        return "starting a cluster requires root; set KUBECONFIG to use an existing one"
    lacking = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if lacking and not Path("/etc/debian_version").exists():
        return f"missing packages (Debian names): {', '.join(lacking)}"
    if not shutil.which("go") and any(find(name) is None for name in PROGRAMS):
        return "Kubernetes programs not found: install Go, or set KUBEBUILDER_ASSETS"
    return ""


def install() -> None:
    lacking = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if lacking:
        say(f"installing {', '.join(lacking)}")
        apt_install(lacking)


def apt_install(packages: list[str]) -> None:
    """One process at a time. If another program installs packages, wait for it."""
    words = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    words += ["-o", f"DPkg::Lock::Timeout={LOCKED}"]
    # Do not start the packages' services: tests start their own.
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    with Path(tempfile.gettempdir(), "headway-apt").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if subprocess.run(words, env=env, check=False, stdout=subprocess.DEVNULL).returncode:
            subprocess.run(["apt-get", "update"], env=env, check=True, stdout=subprocess.DEVNULL)
            subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)


def _build(names: list[str]) -> None:
    if not shutil.which("go"):
        raise Trouble("Go not found: install it to build Kubernetes, or set KUBEBUILDER_ASSETS")
    kept().mkdir(parents=True, exist_ok=True)
    with (kept() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in [name for name in names if find(name) is None]:
            say(f"building {name} {OTHERS.get(name, VERSION)} (only once)")
            folder = kept() / "src" / (name if name in OTHERS else "kubernetes")
            folder.mkdir(parents=True, exist_ok=True)
            make = {"coredns": _coredns, "helm": _helm}.get(name)
            package = make(folder) if make else _kubernetes(folder, name)
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
    """Write a module that replaces each staging module with its release; return the package."""
    download = json.loads(_go(["mod", "download", "-json", f"k8s.io/kubernetes@{VERSION}"], folder))
    lines = [line.split() for line in Path(download["GoMod"]).read_text().splitlines()]
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


def _helm(folder: Path) -> str:
    if not (folder / "go.mod").exists():
        wanted = f"require helm.sh/helm/v3 {HELM}"
        (folder / "go.mod").write_text(f"module headway.dev/testhelm\ngo 1.24.0\n{wanted}\n")
    return "helm.sh/helm/v3/cmd/helm"


def _go(words: list[str], folder: Path) -> str:
    env = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        ["nice", "-n", "15", "go", *words],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Trouble(f"go {words[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
