"""Files between our folder of a replica and a container that cannot see it.

Reports and checkpoints are fetched as they appear, the wish for a checkpoint is brought there. So
our folder is what it is elsewhere, and everybody else looks into it as always. A checkpoint is
whole here before `LATEST` names it, as the SDK has it.
"""

import io
import json
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path

from headway.backend.docker.client import Client
from headway.errors import Declined

LATEST = "LATEST"


class FileSync:
    """Called by the engine's thread alone."""

    def __init__(self, client: Client, container: str, folder: Path, user: str, epoch: int) -> None:
        self.client, self.container, self.folder = client, container, folder
        self._began = folder / f"reports.{epoch}"
        """How much had been said before this epoch."""
        owner, _, group = user.partition(":")
        self._owner = (int(owner), int(group or owner)) if owner.isdigit() else (0, 0)
        self._known: dict[str, str] = {}
        self._asked = False

    def furnish(self) -> None:
        """Before it starts: the folder, and the checkpoint to go on from."""
        files = [self.folder, self.folder / "epoch", *self._checkpoint()]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for path in files:
                tar.add(path, str(path), recursive=False, filter=self._theirs)
        self.client.put(self.container, buffer.getvalue())

    def sync(self) -> None:
        with suppress(Declined):  # it is being removed
            self._fetch_reports()
            if self._changed(f"checkpoint/{LATEST}"):
                self._fetch_checkpoint()
            if (self.folder / "ask").exists() and not self._asked:
                self._asked = True
                self._bring("ask")

    def last(self) -> None:
        """When it has exited: all that is there."""
        with suppress(Declined):
            self._fetch_reports()
            self._fetch_checkpoint()

    def _checkpoint(self) -> list[Path]:
        there = self.folder / "checkpoint"
        return [there, *sorted(there.rglob("*"))]

    def _theirs(self, info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid, info.gid = self._owner
        info.uname = info.gname = ""
        info.mode |= 0o777 if info.isdir() and self._owner == (0, 0) else 0
        return info

    def _changed(self, name: str) -> bool:
        seen = self.client.stat(self.container, str(self.folder / name))
        before, self._known[name] = self._known.get(name, ""), seen
        return bool(seen) and seen != before

    def _bring(self, name: str) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(self.folder / name, name, filter=self._theirs)
        self.client.put(self.container, buffer.getvalue(), str(self.folder))

    def _fetch_reports(self) -> None:
        """Its new lines are added to ours."""
        name = "reports.jsonl"
        if not self._changed(name):
            return
        ours = self.folder / name
        have = ours.stat().st_size if ours.exists() else 0
        with (
            self.client.fetch(self.container, str(self.folder / name)) as answer,
            tarfile.open(fileobj=answer, mode="r|") as tar,
        ):
            for member in tar:
                file = tar.extractfile(member)
                data = file.read() if file else b""
        if not self._began.exists():
            self._began.write_text(str(have))
        with ours.open("ab") as out:
            out.write(data[have - int(self._began.read_text()) :])

    def _fetch_checkpoint(self) -> None:
        part = self.folder / "checkpoint.part"
        shutil.rmtree(part, ignore_errors=True)
        with (
            self.client.fetch(self.container, str(self.folder / "checkpoint")) as answer,
            tarfile.open(fileobj=answer, mode="r|") as tar,
        ):
            tar.extractall(part, filter="data")
        came = part / "checkpoint"
        if not _whole(came):
            self._known.clear()  # it changed while it was read: again, next time
            return
        entries = sorted(came.iterdir(), key=lambda p: p.name == LATEST)  # that one comes last
        for path in entries:
            there = self.folder / "checkpoint" / path.name
            if there.is_dir() and path.is_dir():
                shutil.rmtree(there)
            path.replace(there)
        self._drop_old({p.name for p in entries})
        shutil.rmtree(part)

    def _drop_old(self, names: set[str]) -> None:
        for path in (self.folder / "checkpoint").iterdir():
            if path.name not in names and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)


def _whole(folder: Path) -> bool:
    """Is the checkpoint there that `LATEST` names? Without the SDK there is none."""
    try:
        return (folder / str(json.loads((folder / LATEST).read_text())["name"])).exists()
    except FileNotFoundError:
        return True
    except (ValueError, KeyError, TypeError):
        return False
