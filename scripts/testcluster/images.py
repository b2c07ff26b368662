"""Images without a registry: imported as archives into the containerd of each node."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import IO, Any

from testcluster.layout import PAUSE, ROOT, Trouble

sys.path.append(str(ROOT / "tests" / "real"))
import image


def pause() -> bytes:
    """Return the layer of the pause image, which holds a pod's network namespace."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        busybox = which("busybox")
        if busybox is None:
            raise Trouble("busybox not found: apt-get install busybox-static")
        tar.add(Path(busybox).resolve(), "bin/busybox")
    return layer.getvalue()


def jobs() -> tuple[Path, dict[str, Any]]:
    """Return the layer and the settings of the test image: Python, numpy, Headway."""
    settings: dict[str, Any] = {}
    for change in image.CHANGES:
        word, _, rest = change.partition(" ")
        name = {"USER": "User", "ENV": "Env", "CMD": "Cmd"}[word]
        settings[name] = {"USER": str, "ENV": str.split, "CMD": json.loads}[word](rest)
    return image.archive(), settings


def load(socket: Path, path: Path, settings: Mapping[str, Any]) -> None:
    """Import both images into the containerd at `socket`. `path` is the layer of the test image."""
    layer = pause()
    _load(
        socket,
        PAUSE,
        io.BytesIO(layer),
        len(layer),
        {"Cmd": ["/bin/busybox", "sleep", "2147483647"]},
    )
    with path.open("rb") as file:
        _load(socket, image.NAME, file, path.stat().st_size, settings)


def _load(
    socket: Path, name: str, layer: IO[bytes], size: int, settings: Mapping[str, Any]
) -> None:
    digest = hashlib.file_digest(layer, "sha256").hexdigest()
    layer.seek(0)
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }).encode()  # fmt: skip
    about = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": about, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    words = ["ctr", "--address", str(socket), "--namespace", "k8s.io", "images", "import", "-"]
    done = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        with tarfile.open(fileobj=done.stdin, mode="w|") as archive:
            for path, data in ((about, config), ("manifest.json", manifest)):
                _add(archive, path, io.BytesIO(data), len(data))
            _add(archive, "layer.tar", layer, size)
        done.stdin.close()
    except BrokenPipeError:
        pass
    said = done.stdout.read()
    if done.wait():
        raise Trouble(f"image {name} could not be imported: {said.decode()[-500:]}")


def _add(archive: tarfile.TarFile, name: str, data: IO[bytes], size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    archive.addfile(info, data)
