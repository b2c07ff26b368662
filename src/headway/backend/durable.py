"""Write private files that survive a power cut: file and directory entry are synced."""

import os
from pathlib import Path

from headway import failpoint, private_files


def write(path: Path, text: str) -> None:
    """Replace a file atomically. The content is durable when this returns."""
    part = path.with_name(f"{path.name}.part")
    failpoint.hit("file.write")
    with open(part, "w", encoding="utf-8", opener=private_files.opener) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    failpoint.hit("file.replace")
    part.replace(path)
    failpoint.hit("file.sync")
    sync(path.parent)


def make(folder: Path) -> None:
    """Create a folder and its missing parents durably."""
    if folder.is_dir():
        return
    make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync(folder.parent)


def sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
