"""Private Docker engines: each with its own folder, socket and control groups, and shared with
nobody. Whatever is started here is ended here, by its number, also after a failure.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from time import sleep
from urllib.parse import urlencode

import image
from patience import Deadline, end_of, wait_for
from testcluster.binaries import apt_install

from headway.backend.docker.client import Client
from headway.backend.local.enforcement.cgroupfs import clear, hierarchies
from headway.errors import BackendError

CONTAINERD = """
version = 2
root = "{root}/containerd"
state = "{root}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{root}/containerd.sock"
"""


class PrivateEngine:
    """`hidden`: a folder that it, and its containers, cannot see: as if it were elsewhere.
    `cpus`: all that it has. `namespace`: its network, where it has the address `host`.
    """

    def __init__(
        self, name, *, live_restore=False, hidden=None, tcp=None, cpus=None, namespace=None,
        host="127.0.0.1",
    ):  # fmt: skip
        self.name, self.live_restore, self.hidden, self.cpus = name, live_restore, hidden, cpus
        self.namespace = namespace
        self.root = Path(tempfile.mkdtemp(prefix=f"hw-{name}-", dir=roomy()))
        self.url = f"tcp://{host}:{tcp}" if tcp else f"unix://{self.root}/docker.sock"
        self.client = Client(self.url)
        self.group = f"/{self.root.name}"
        self.dockerd = None
        self._weigh(8)
        (self.root / "containerd.toml").write_text(CONTAINERD.format(root=self.root))
        (self.root / "daemon.json").write_text("{}")
        try:
            words = ["containerd", "--config", f"{self.root}/containerd.toml"]
            self.containerd = self._process(words)
            wait_for(Path(f"{self.root}/containerd.sock").exists)
            self.start()
            self.load()
        except BaseException:
            self.close()
            raise

    def _weigh(self, weight):
        """All of its containers together weigh as much as so many busy processes."""
        for h in hierarchies():
            if "cpu" in h.controllers:
                there = Path(f"{h.mount}{self.group}")
                there.mkdir(exist_ok=True)
                (there / "cpu.shares").write_text(str(1024 * weight))

    def _process(self, words):
        if self.hidden is not None:
            hide = f"mount -t tmpfs none {self.hidden} && exec {' '.join(map(str, words))}"
            if words[0] == "dockerd":  # it must be where its containerd is
                words = ["nsenter", "--mount", f"--target={self.containerd.pid}", *words]
            else:
                words = ["unshare", "--mount", "sh", "-c", hide]
        if self.cpus is not None:
            words = ["taskset", "--cpu-list", ",".join(map(str, self.cpus)), *words]
        if self.namespace is not None:
            words = ["nsenter", f"--net=/run/netns/{self.namespace}", *words]
        with (self.root / f"{Path(words[0]).name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(w) for w in words], stdout=log, stderr=log, start_new_session=True
            )

    def start(self):
        words = ["dockerd", "--containerd", f"{self.root}/containerd.sock"]
        words += ["--data-root", f"{self.root}/data", "--exec-root", f"{self.root}/exec"]
        words += ["--pidfile", f"{self.root}/docker.pid", "--config-file"]
        words += [f"{self.root}/daemon.json", "--host", self.url, "--cgroup-parent", self.group]
        words += ["--iptables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false"]
        words += ["--live-restore"] if self.live_restore else []
        words += ["--tls=false"] if self.namespace else []  # else it waits before it starts
        for driver in ([], ["--storage-driver", "vfs"]):
            self.dockerd = self._process([*words, *driver])
            if self._answers():
                return
        raise AssertionError((self.root / "dockerd.log").read_text()[-2000:])

    def _answers(self):
        deadline = Deadline()
        while not deadline.passed() and self.dockerd.poll() is None:
            with suppress(BackendError):
                self.client.hello()
                return True
            sleep(0.02)
        return False

    def stop(self, number=signal.SIGTERM):
        """The engine, not what it works with."""
        if self.dockerd is not None and self.dockerd.poll() is None:
            self.dockerd.send_signal(number)
            end_of(self.dockerd)
        (self.root / "docker.pid").unlink(missing_ok=True)

    def load(self, name=image.NAME, archive=None):
        repository, _, tag = name.partition(":")
        query = {"fromSrc": "-", "repo": repository, "tag": tag, "changes": image.CHANGES}
        words = urlencode(query, doseq=True)
        self.client.post(f"/images/create?{words}", (archive or image.archive()).read_bytes())

    def create(self, what, *, name=None, labels=None, **host):
        """A container that somebody else runs: a script, or a command."""
        words = ["python3", "-u", "-c", what] if isinstance(what, str) else what
        made = {"Image": image.NAME, "Cmd": words, "Labels": labels or {}}
        made["HostConfig"] = {"Init": True, **host}
        found = self.client.post("/containers/create", made, name=name)["Id"]
        self.client.post(f"/containers/{found}/start")
        return found

    def inspect(self, container):
        return self.client.get(f"/containers/{container}/json")

    def containers(self):
        return [c["Id"] for c in self.client.get("/containers/json", all=True)]

    def close(self):
        with suppress(BackendError):
            for each in self.containers():
                self.client.delete(f"/containers/{each}", force=True, v=True)
        for each in (self.dockerd, self.containerd):
            if each is not None and each.poll() is None:
                each.terminate()
                with suppress(subprocess.TimeoutExpired):
                    end_of(each)
        for pid in self.processes():  # the shims of what would not go
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount in reversed(mounts(self.root)):
            subprocess.run(["umount", "--lazy", mount], check=False)
        clear(self.groups())
        shutil.rmtree(self.root, ignore_errors=True)

    def processes(self):
        found = []
        for pid in (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
            with suppress(OSError):
                if str(self.root).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def groups(self):
        tops = [f"{h.mount}{self.group}" for h in hierarchies()]
        return [top for top in tops if Path(top).is_dir()]

    def left(self):
        """What is still there of it."""
        return [*self.processes(), *mounts(self.root), *self.groups()]


def roomy():
    """Memory, where there is enough of it: to remove images from a busy disk takes seconds."""
    shared = Path("/dev/shm")
    if shared.is_dir() and shutil.disk_usage(shared).free > 4 * 2**30:
        return shared
    return None


def mounts(root):
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [m for m in (line.split()[1] for line in lines) if m.startswith(f"{root}/")]


def missing():
    """Why there can be no private engine here; "": there can."""
    if os.getuid():
        return "no engine of its own without root; DOCKER_HOST may name one"
    required = "docker" in os.environ.get("HEADWAY_REQUIRE", "").split(",")
    if required and not shutil.which("dockerd") and Path("/etc/debian_version").exists():
        apt_install(["docker.io"])
    return "" if shutil.which("dockerd") else "no dockerd here: apt-get install docker.io"
