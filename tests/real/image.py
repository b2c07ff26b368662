"""Container images without a registry, as one layer each: this interpreter, numpy and Headway; and
another interpreter with PyTorch.

Every file keeps the path that it has on this machine, so that nothing must be found anew; what
`ldd` names comes along. Headway's own part, the user and the environment are those of
`deploy/docker/workloads.Dockerfile`, which makes the same on top of a registry's Python.
"""

import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from time import time

import numpy as np

NAME = "headway-workloads:test"
OPERATOR = "headway:test"
TORCH = "headway-torch:test"
DAY = 86400.0
ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "deploy" / "docker" / "workloads.Dockerfile").read_text().splitlines()
COPIED = dict(line.split()[1:] for line in RECIPE if line.startswith("COPY src/"))
"""From here, to where below SITE."""
SITE = "/opt/headway"
OPERATOR_SITE, BIN = "/opt/operator", "/usr/bin:/bin"
SCRIPT = "#!/usr/local/bin/python3\nfrom headway.cli import main\n\nmain()\n"
UNUSED = re.compile(r"^kubernetes/(aio|client/(models|api)/(?!__init__))|/__pycache__/.*\.opt-")
LEFT_OUT = {
    "site-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo",
    "distutils", "pydoc_data", "lib-tk", "curses", "dbm",
}  # fmt: skip
CHANGES = tuple(line for line in RECIPE if line.split(" ")[0] in ("USER", "ENV", "CMD"))


def archive() -> Path:
    """The root file system as a tar file, kept until what it is made of changes."""
    return _kept("image", _key(), _fill)


def _kept(kind: str, key: str, fill: Callable[[tarfile.TarFile], None]) -> Path:
    home = os.environ.get("HEADWAY_CACHE") or Path.home() / ".cache" / "headway"
    there = Path(home) / f"{kind}-{key}.tar"
    if not there.exists():
        there.parent.mkdir(parents=True, exist_ok=True)
        part = there.with_suffix(f".{os.getpid()}")
        with tarfile.open(part, "w") as tar:
            fill(tar)
        part.rename(there)
    os.utime(there)
    for old in there.parent.glob(f"{kind}-*.tar"):  # another checkout may be using a fresh one
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < time() - DAY:
                old.unlink()
    return there


def operator_archive() -> Path:
    """A second layer, for the operator: all of Headway, and what it depends on. Without the parts
    of the Kubernetes client that it never imports.
    """
    needs = " ".join(sorted(_required("headway", "kubernetes")))
    return _kept("operator", _key(ROOT / "src" / "headway", more=needs), _fill_operator)


def _fill_operator(tar: tarfile.TarFile) -> None:
    tar.add(ROOT / "src" / "headway", f"{OPERATOR_SITE}/headway", filter=_plain)
    _file(tar, "usr/local/bin/headway", SCRIPT.encode(), 0o755)
    objects: list[Path] = []
    for name in sorted(_required("headway", "kubernetes") - {"headway", "numpy"}):
        there = metadata.distribution(name)
        for file in there.files or ():
            path = Path(str(there.locate_file(file)))
            if path.is_file() and ".." not in file.parts and not UNUSED.search(str(file)):
                tar.add(path, f"{OPERATOR_SITE}/{file}", filter=_plain)
                objects += [path] if ".so" in path.suffixes else []
    for library in sorted(map(_place, _libraries(objects))):
        tar.add(os.path.realpath(library), library, filter=_plain)


def _required(name: str, *extras: str) -> set[str]:
    """Names of the installed distributions that this one requires, and its own."""
    found, left = {name}, [(name, extras)]
    while left:
        each, wanted = left.pop()
        for line in metadata.requires(each) or ():
            requirement, _, condition = line.partition(";")
            needs = re.findall(r"extra == ['\"]([^'\"]+)", condition)
            other = re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]
            other = other.lower().replace("_", "-")
            known = {d.name.lower().replace("_", "-") for d in metadata.distributions()}
            if other in known and other not in found and (not needs or set(needs) & set(wanted)):
                found.add(other)
                left.append((other, ()))
    return found


def _key(*folders: Path, more: str = "") -> str:
    """Changes with the interpreter, numpy, Headway's own files, and this file."""
    sources = [*(ROOT / source for source in COPIED), *folders]
    ours = [p for source in sources for p in (source, *source.rglob("*.py"))]
    files = [Path(__file__), *sorted(p for p in ours if p.is_file())]
    text = sys.version + np.__version__ + os.path.realpath(sys.executable) + more
    seen = b"".join(p.read_bytes() for p in files)
    return hashlib.sha256("".join((text, *RECIPE)).encode() + seen).hexdigest()[:12]


def torch_archive(python: str, to: Path) -> None:
    """Write the root file system of an image with this interpreter, which has PyTorch: 700 MB."""
    find = "import sys, sysconfig, torch, numpy; print(sysconfig.get_paths()['stdlib'])\n"
    find += "site = torch.__path__[0].rpartition('/')[0]; print(site)\n"
    find += "used = {m.__file__ or '' for m in sys.modules.values() if hasattr(m, '__file__')}\n"
    find += "parts = {f.removeprefix(site + '/').partition('/')[0] for f in used if site in f}\n"
    find += "print(*sorted(parts))"
    done = subprocess.run([python, "-c", find], check=True, capture_output=True, text=True)
    stdlib, site, parts = done.stdout.splitlines()
    trees = [(Path(site, part), f"{site}/{part}") for part in parts.split()]
    with tarfile.open(to, "w") as tar:
        _fill_with(tar, Path(os.path.realpath(python)), [(Path(stdlib), stdlib), *trees])


def _fill(tar: tarfile.TarFile) -> None:
    stdlib, site = Path(sysconfig.get_paths()["stdlib"]), Path(np.__file__).parent.parent
    trees = [(stdlib, str(stdlib))]
    trees += [(site / p, f"{SITE}/{p}") for p in ("numpy", "numpy.libs") if (site / p).exists()]
    _fill_with(tar, Path(os.path.realpath(sys.executable)), trees)


def _fill_with(tar: tarfile.TarFile, interpreter: Path, trees: list[tuple[Path, str]]) -> None:
    """`trees`: what Python code it needs beside Headway's, and where it goes."""
    trees = [*trees, *((ROOT / source, f"{SITE}/{target}") for source, target in COPIED.items())]
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
    links = {str(p.parent / p.readlink()) for p in objects if p.is_symlink() and p.exists()}
    for path in sorted({_place(p) for p in _libraries([interpreter, *objects]) | links}):
        tar.add(os.path.realpath(path), path, filter=_plain)
    for top in (Path("/lib"), Path("/lib64")):  # most systems have them below /usr
        if top.is_symlink():
            _link(tar, top.name, str(top.readlink()))


def _place(path: str) -> str:
    """The path of a library without links between directories."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - a name in an archive


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


def _file(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


def _link(tar: tarfile.TarFile, name: str, to: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, to
    tar.addfile(info)
