"""Images without a registry: imported as archives into the containerd of each node."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import IO, Any

from testcluster.layout import PAUSE, ROOT, Trouble

sys.path.append(str(ROOT / "tests" / "real"))
import image


@dataclass(frozen=True)
class Image:
    name: str
    layers: tuple[Path, ...]
    """Tar files, lowest first."""
    settings: Mapping[str, Any]


def pause() -> bytes:
    """Return the layer of the pause image, which holds a pod's network namespace."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        busybox = which("busybox")
        if busybox is None:
            raise Trouble("busybox not found: apt-get install busybox-static")
        tar.add(Path(busybox).resolve(), "bin/busybox")
    return layer.getvalue()


def jobs() -> Image:
    """Return the test image: Python, numpy, Headway's SDK and trainings."""
    settings: dict[str, Any] = {}
    for change in image.CHANGES:
        word, _, rest = change.partition(" ")
        name = {"USER": "User", "ENV": "Env", "CMD": "Cmd"}[word]
        settings[name] = {"USER": str, "ENV": str.split, "CMD": json.loads}[word](rest)
    return Image(image.NAME, (image.archive(),), settings)


def operator() -> Image:
    """Return the image of the operator, which `deploy/docker/headway.Dockerfile` describes: on top
    of the test image, all of Headway and what it depends on.
    """
    below = jobs()
    here = f"{image.OPERATOR_SITE}:{image.SITE}"
    env = [f"PYTHONPATH={here}", "PYTHONUNBUFFERED=1", f"PATH=/usr/local/bin:{image.BIN}"]
    return Image(
        image.OPERATOR, (*below.layers, image.operator_archive()), {"User": "1000:1000", "Env": env}
    )


def load(socket: Path, images: Sequence[Image]) -> None:
    """Import these and the pause image into the containerd at `socket`, each layer once."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        file.write(pause())
        file.flush()
        command = {"Cmd": ["/bin/busybox", "sleep", "2147483647"]}
        _load(socket, [Image(PAUSE, (Path(file.name),), command), *images])


def _load(socket: Path, images: Sequence[Image]) -> None:
    manifest, files = [], {}
    for each in images:
        digests = [f"sha256:{_digest(layer)}" for layer in each.layers]
        config = json.dumps({
            "architecture": "amd64", "os": "linux", "config": each.settings,
            "rootfs": {"type": "layers", "diff_ids": digests},
        }).encode()  # fmt: skip
        about = hashlib.sha256(config).hexdigest() + ".json"
        files[about] = config
        names = [layer.name for layer in each.layers]
        manifest.append({"Config": about, "RepoTags": [each.name], "Layers": names})
    files["manifest.json"] = json.dumps(manifest).encode()
    words = ["ctr", "--address", str(socket), "--namespace", "k8s.io", "images", "import", "-"]
    done = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        with tarfile.open(fileobj=done.stdin, mode="w|") as archive:
            for path, data in files.items():
                _add(archive, path, io.BytesIO(data), len(data))
            for layer in dict.fromkeys(layer for each in images for layer in each.layers):
                with layer.open("rb") as file:
                    _add(archive, layer.name, file, layer.stat().st_size)
        done.stdin.close()
    except BrokenPipeError:
        pass
    said = done.stdout.read()
    if done.wait():
        raise Trouble(f"images could not be imported: {said.decode()[-500:]}")


@cache
def _digest(layer: Path) -> str:
    with layer.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add(archive: tarfile.TarFile, name: str, data: IO[bytes], size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    archive.addfile(info, data)
