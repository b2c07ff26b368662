"""Run jobs as other users, if Headway runs as root."""

import grp
import os
import pwd
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headway import private_files
from headway.errors import ConfigError
from headway.spec.runnable import RunnableJob

KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Variables that a job of another user inherits from Headway. Others may be secrets of root."""
DROP = """
import os, sys, warnings  # execvp needs it, and the user may not be able to read the library
uid, gid, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.initgroups(name, gid) if name else os.setgroups([])
os.setgid(gid)
os.setuid(uid)
try:
    os.execvp(sys.argv[4], sys.argv[4:])
except OSError as error:
    print(f"{sys.argv[4]}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
"""Runs in the shell, which enters the cgroups as root. The exit codes are those of a shell."""


@dataclass(frozen=True, slots=True)
class User:
    uid: int
    gid: int
    name: str = ""
    """Empty: a uid without an account and without further groups."""
    home: str = "/"

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that run it as this user."""
        return (sys.executable, "-ISc", DROP, str(self.uid), str(self.gid), self.name)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        kept = {key: base[key] for key in KEPT if key in base}
        named = {"USER": self.name, "LOGNAME": self.name} if self.name else {}
        return {**kept, "HOME": self.home, **named}

    def own(self, folder: Path, top: Path) -> None:
        """Give the folder of a replica to the user, with search permission on its parents up to
        `top`.
        """
        private_files.let_pass(folder, top)
        for path in (folder, folder / "checkpoint"):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def find_user(given: str) -> User:
    """Find `user` or `user:group`, by name or number. Raise `KeyError` for an unknown name."""
    word, _, group = given.partition(":")
    try:
        account = pwd.getpwuid(int(word)) if word.isdecimal() else pwd.getpwnam(word)
    except KeyError:
        if not word.isdecimal():
            raise
        gid = _group(group) if group else int(word)
        return User(int(word), gid)
    gid = _group(group) if group else account.pw_gid
    return User(account.pw_uid, gid, account.pw_name, account.pw_dir)


def _group(word: str) -> int:
    return int(word) if word.isdecimal() else grp.getgrnam(word).gr_gid


def check_users(jobs: Iterable[RunnableJob], data: Path, where: str) -> None:
    """Raise an error if a job cannot run as the user that it names."""
    for job in jobs:
        for user in filter(None, (command.user for command in job.commands.values())):
            _check(job.id, user, data, where)


def _check(job: str, user: str, data: Path, where: str) -> None:
    what = f"job {job!r} cannot run as {user!r}"
    if os.geteuid():
        raise ConfigError(f"{what}: Headway does not run as root", where=where, hint="use sudo")
    try:
        found = find_user(user)
    except (KeyError, OverflowError) as error:
        raise ConfigError(
            f"{what}: {error.args[0]!s}", where=where, hint="look it up with getent passwd"
        ) from None
    for folder in data.parents:
        if folder.exists() and not _passes(found, folder.stat()):
            raise ConfigError(
                f"{what}: it cannot enter {folder}, which contains the data folder",
                where=where,
                hint="choose another data folder, such as --data /var/lib/headway",
            )


def _passes(user: User, folder: os.stat_result) -> bool:
    if folder.st_uid == user.uid:
        return bool(folder.st_mode & stat.S_IXUSR)
    if folder.st_gid == user.gid:
        return bool(folder.st_mode & stat.S_IXGRP)
    return bool(folder.st_mode & stat.S_IXOTH)
