"""A container image without a registry: this interpreter, numpy and Headway, as one layer.

Every file keeps the path that it has on this machine, so that nothing must be found anew; what
`ldd` names comes along. Headway's own part, the user and the environment are those of
`deploy/docker/workloads.Dockerfile`, which makes the same on top of a registry's Python.
"""

import hashlib
import io
import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import numpy as np

NAME = "headway-workloads:test"
ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "deploy" / "docker" / "workloads.Dockerfile").read_text().splitlines()
COPIED = dict(line.split()[1:] for line in RECIPE if line.startswith("COPY src/"))
"""From here, to where below SITE."""
SITE = "/opt/headway"
LEFT_OUT = {
    "site-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo",
    "distutils", "pydoc_data", "lib-tk", "curses", "dbm",
}  # fmt: skip
CHANGES = tuple(line for line in RECIPE if line.split(" ")[0] in ("USER", "ENV", "CMD"))


def archive() -> Path:
    """The root file system as a tar file, kept until what it is made of changes."""
    home = os.environ.get("HEADWAY_CACHE") or Path.home() / ".cache" / "headway"
    there = Path(home) / f"image-{_key()}.tar"
    if not there.exists():
        there.parent.mkdir(parents=True, exist_ok=True)
        part = there.with_suffix(f".{os.getpid()}")
        with tarfile.open(part, "w") as tar:
            _fill(tar)
        part.rename(there)
        for old in {*there.parent.glob("image-*.tar")} - {there}:
            old.unlink(missing_ok=True)
    return there


def _key() -> str:
    """Changes with the interpreter, numpy, Headway's own files, and this file."""
    ours = [p for source in COPIED for p in (ROOT / source, *(ROOT / source).rglob("*.py"))]
    files = [Path(__file__), *sorted(p for p in ours if p.is_file())]
    text = sys.version + np.__version__ + os.path.realpath(sys.executable)
    seen = b"".join(p.read_bytes() for p in files)
    return hashlib.sha256("".join((text, *RECIPE)).encode() + seen).hexdigest()[:12]


def _fill(tar: tarfile.TarFile) -> None:
    interpreter = Path(os.path.realpath(sys.executable))
    stdlib, site = Path(sysconfig.get_paths()["stdlib"]), Path(np.__file__).parent.parent
    trees = [(stdlib, str(stdlib))]
    trees += [(site / p, f"{SITE}/{p}") for p in ("numpy", "numpy.libs") if (site / p).exists()]
    trees += [(ROOT / source, f"{SITE}/{target}") for source, target in COPIED.items()]
    for folder in ("tmp", "etc", "usr/local/bin", "proc", "sys", "dev"):
        _folder(tar, folder, 0o1777 if folder == "tmp" else 0o755)
    _file(tar, "etc/passwd", b"root:x:0:0::/:/bin/sh\nheadway:x:1000:1000::/tmp:/bin/sh\n")
    _file(tar, "etc/group", b"root:x:0:\nheadway:x:1000:\n")
    _link(tar, "usr/local/bin/python3", str(interpreter))
    _link(tar, "usr/local/bin/python", str(interpreter))
    tar.add(interpreter, interpreter.as_posix(), filter=_plain)
    for source, target in trees:
        tar.add(source, target, filter=_plain)
    objects = [p for source, _ in trees for p in source.rglob("*.so*") if _wanted(p, source)]
    for path in sorted(_libraries([interpreter, *objects])):
        tar.add(os.path.realpath(path), path, filter=_plain)


def _wanted(path: Path, source: Path) -> bool:
    return not set(path.relative_to(source).parts) & LEFT_OUT and "_tkinter" not in path.name


def _libraries(objects: list[Path]) -> set[str]:
    """What the loader would load for these, by the paths under which it looks."""
    said = subprocess.run(["ldd", *map(str, objects)], capture_output=True, text=True, check=False)
    words = (line.split() for line in said.stdout.splitlines())
    found = {w for line in words for w in line if w.startswith("/") and not w.endswith(":")}
    return {path for path in found if "numpy" not in path}


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Nobody's, readable by all, and without what no training needs."""
    name = Path(info.name).name
    if name in LEFT_OUT or name.startswith(("config-3", "_tkinter")) or ".opt-" in name:
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode |= 0o555 if info.isdir() else 0o444
    return info


def _folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    tar.addfile(info)


def _file(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def _link(tar: tarfile.TarFile, name: str, to: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, to
    tar.addfile(info)
