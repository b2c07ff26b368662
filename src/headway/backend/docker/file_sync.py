"""Copy files between the folder of a replica and a container that cannot access it.

Reports and checkpoints are downloaded as they appear. Requests for a checkpoint are uploaded. So
the folder has the same content as on other platforms. A checkpoint is complete before `LATEST`
names it, as with the SDK.
"""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from headway.backend.docker.client import Client
from headway.errors import Declined
from headway.metrics import job_files
from headway.metrics.reader import MAX_READ

LATEST = "LATEST"
MOST_NEW = MAX_READ
"""Maximum number of bytes of new reports per copy. More would not be parsed."""


class FileSync:
    """Used only in the engine's worker."""

    def __init__(
        self, client: Client, container: str, folder: Path, user: str, position: Path
    ) -> None:
        self.client, self.container, self.folder = client, container, folder
        self._position = position
        """Record with the number of copied bytes of `reports.jsonl`, and the size of our copy
        then."""
        owner, _, group = user.partition(":")
        self._owner = (int(owner), int(group or owner)) if owner.isdigit() else (0, 0)
        self._known: dict[str, str] = {}
        self._asked = False

    def upload(self) -> None:
        """Before the start: upload the folder with the checkpoint to continue from."""
        there = self.folder / "checkpoint"
        paths = [self.folder, self.folder / "attempt", there, *sorted(there.rglob("*"))]
        self._send({str(path): path for path in paths}, "/")

    def sync(self) -> None:
        with suppress(Declined):  # the container is being removed
            self._fetch_reports()
            if self._changed(f"checkpoint/{LATEST}"):
                self._fetch_checkpoint()
            asked = (self.folder / "ask").exists()
            if asked and not self._asked:
                self.upload_file("ask")
            self._asked = asked

    def download(self) -> None:
        """After the exit: download reports and checkpoint."""
        with suppress(Declined):
            self._fetch_reports()
            self._fetch_checkpoint()

    def _owned(self, info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid, info.gid = self._owner
        info.uname = info.gname = ""
        info.mode |= 0o777 if info.isdir() and self._owner == (0, 0) else 0
        return info

    def _changed(self, name: str) -> bool:
        seen = self.client.stat(self.container, str(self.folder / name))
        before, self._known[name] = self._known.get(name, ""), seen
        return bool(seen) and seen != before

    def upload_file(self, name: str) -> None:
        """Upload a file of the folder."""
        self._send({name: self.folder / name}, str(self.folder))

    def _send(self, files: Mapping[str, Path], to: str) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, path in files.items():
                tar.add(path, name, recursive=False, filter=self._owned)
        self.client.put(self.container, buffer.getvalue(), to)

    @contextmanager
    def _archive(self, name: str) -> Iterator[tarfile.TarFile]:
        """Open a file or folder of the container's folder."""
        with (
            self.client.fetch(self.container, str(self.folder / name)) as answer,
            tarfile.open(fileobj=answer, mode="r|") as tar,
        ):
            yield tar

    def _fetch_reports(self) -> None:
        """Append new lines to our copy of the reports."""
        name = "reports.jsonl"
        if not self._changed(name):
            return
        copied, data = self._copied(), b""
        with self._archive(name) as tar:
            for member in tar:
                if member.isfile() and (file := tar.extractfile(member)) is not None:
                    copied, data = _rest(file, copied)
        out = job_files.open_file(self.folder, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with open(out, "ab") as ours:  # noqa: PTH123 - no path
            ours.write(data)
        self._note(copied)

    def _copied(self) -> int:
        """Return the number of copied bytes of the reports, including bytes that were appended
        after the record was written. If our copy has become shorter, it was truncated meanwhile.
        """
        size = job_files.size(self.folder, "reports.jsonl")
        try:
            copied, then = map(int, self._position.read_text().split())
        except (OSError, ValueError):
            self._note(0)
            return 0
        return copied + max(0, size - then)

    def _note(self, copied: int) -> None:
        self._position.parent.mkdir(parents=True, exist_ok=True)
        size = job_files.size(self.folder, "reports.jsonl")
        self._position.write_text(f"{copied} {size}")

    def _fetch_checkpoint(self) -> None:
        part = self.folder / "checkpoint.part"
        shutil.rmtree(part, ignore_errors=True)
        with self._archive("checkpoint") as tar:
            _extract(tar, part)
        came = part / "checkpoint"
        if not _complete(came):
            self._known.clear()  # it changed during the copy; the next sync repeats it
            return
        entries = sorted(came.iterdir(), key=lambda p: p.name == LATEST)  # LATEST comes last
        for path in entries:
            there = self.folder / "checkpoint" / path.name
            if there.is_dir() and path.is_dir():
                shutil.rmtree(there)
            path.replace(there)
        names = {p.name for p in entries}
        for old in (self.folder / "checkpoint").iterdir():
            if old.name not in names and old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(part)


def _rest(file: IO[bytes], copied: int) -> tuple[int, bytes]:
    """Return the size of a file, and the last part of the bytes after the first `copied` ones."""
    size, data = 0, b""
    while chunk := file.read(MOST_NEW):
        fresh = chunk[max(0, copied - size) :]
        size += len(chunk)
        data = (data + fresh)[-MOST_NEW:]
    return size, data


def _complete(folder: Path) -> bool:
    """Return whether the checkpoint that `LATEST` names exists. Without the SDK, there is none."""
    try:
        return (folder / str(json.loads((folder / LATEST).read_text())["name"])).exists()
    except FileNotFoundError:
        return True
    except (ValueError, KeyError, TypeError):
        return False


def _extract(tar: tarfile.TarFile, to: Path) -> None:
    """Extract files, folders and links below `to`, and nothing else: a container can send anything.
    `filter="data"` does the same from Python 3.11.4 on.
    """
    for member in tar:
        there = to / member.name
        if not _is_below(to, there):
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            there.mkdir(exist_ok=True)
        elif member.issym() and _is_below(to, there.parent / member.linkname):
            there.symlink_to(member.linkname)
        elif member.isfile() and (source := tar.extractfile(member)) is not None:
            with there.open("wb") as file:
                shutil.copyfileobj(source, file)
            os.utime(there, (member.mtime, member.mtime))


def _is_below(folder: Path, path: Path) -> bool:
    """Return whether a path is below a folder, after links are resolved."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
