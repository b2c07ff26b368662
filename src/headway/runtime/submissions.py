"""Jobs that were submitted to a server: an SQLite database in its run directory.

A submission is durable when `add` returns (WAL, synchronous=FULL). The thread of the API stores it
and then wakes the loop, which reads new submissions. Other processes, such as `headway ps`, only
read.
"""

import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISFIFO
from time import time
from typing import Any

from headway import private_files
from headway.core.model.units import JobId, Seconds
from headway.errors import BackendError, ConfigError, DiskFull
from headway.runtime.owner import Owner

FILE, WAKE = "jobs.db", "wake"
VERSION = 2
PATIENCE: Seconds = 30.0
IDS = ("jobs", "former")
LONGEST = 63
"""Maximum length of a name in characters."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    entry TEXT NOT NULL,
    directory TEXT NOT NULL,
    env TEXT NOT NULL,
    submitted REAL NOT NULL,
    key TEXT,
    outcome TEXT,
    reason TEXT NOT NULL DEFAULT '',
    started REAL,
    finished REAL,
    steps REAL,
    uid INTEGER,
    gid INTEGER,
    user TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS unfinished ON jobs (number) WHERE outcome IS NULL;
CREATE INDEX IF NOT EXISTS keyed ON jobs (key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS ended ON jobs (finished, number) WHERE outcome IS NOT NULL;
"""
FORMER = "CREATE TABLE IF NOT EXISTS former (id TEXT PRIMARY KEY) WITHOUT ROWID"
"""Ids of removed jobs. They are not used again, because the journal has decisions about them."""
OWNERS = (
    "ALTER TABLE jobs ADD COLUMN uid INTEGER",
    "ALTER TABLE jobs ADD COLUMN gid INTEGER",
    "ALTER TABLE jobs ADD COLUMN user TEXT NOT NULL DEFAULT ''",
)
"""Changes from version 1 to version 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job as a user submitted it."""

    entry: Mapping[str, Any]
    """The job as in a workload file. `name` is the name that the user has requested."""
    directory: str
    """Directory of relative paths."""
    env: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    """None: the server has one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Submission):
    number: int
    id: JobId
    submitted: float
    """Time of day."""
    outcome: str | None = None
    """None: it has not ended."""
    reason: str = ""
    started: Seconds | None = None
    """Seconds of the server's run, like `finished`."""
    finished: Seconds | None = None
    steps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    outcome: str
    reason: str = ""
    started: Seconds | None = None
    finished: Seconds | None = None
    steps: float | None = None


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Context in which errors of SQLite (full disk, lock timeout) are raised as `BackendError`."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise DiskFull(where=str(path)) from None
        raise BackendError(f"cannot use this file: {error}", where=str(path)) from None


class Submissions:
    def __init__(self, run: Path, patience: Seconds = PATIENCE) -> None:
        """`patience`: timeout for a lock of another process."""
        self.path = run / FILE
        with _errors(self.path):
            self._open(run, self.path, patience)

    def _open(self, run: Path, path: Path, patience: Seconds) -> None:
        _create(path)
        self._run = run
        self._db = sqlite3.connect(path, timeout=patience, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, 1, VERSION):
            self._db.close()
            raise ConfigError(
                f"this file has version {version}; this Headway reads version {VERSION}",
                where=str(path),
                hint="use the version of Headway that wrote it",
            )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        if version == 0:
            self._db.executescript(SCHEMA)
            self._db.execute(f"PRAGMA user_version={VERSION}")
        elif version == 1:
            _back_up(self._db, path, version)
            self._add_owners()
        with suppress(sqlite3.OperationalError):  # a full disk stops no reader
            self._db.execute(FORMER)  # earlier versions ignore this table

    def _add_owners(self) -> None:
        with self._transaction():
            # Another process may have done it before this transaction.
            if self._db.execute("PRAGMA user_version").fetchone()[0] == 1:
                for change in OWNERS:
                    self._db.execute(change)
                self._db.execute(f"PRAGMA user_version={VERSION}")

    def add(self, jobs: Sequence[Submission], key: str | None = None) -> list[JobId]:
        """Store all jobs or none; return the id of each: its name, and a number if that is taken.
        `key`: a second submission with the same key adds nothing and returns the same ids.
        """
        with _errors(self.path), self._transaction():
            return self._add(jobs, key)

    def add_all(
        self, submissions: Sequence[tuple[Sequence[Submission], str | None]]
    ) -> list[tuple[list[JobId], bool]]:
        """Store several submissions in one transaction: one sync of the disk for all. Return the
        ids of each, and whether it is new.
        """
        with _errors(self.path), self._transaction():
            return [
                (found, False) if (found := self.known(key)) else (self._add(jobs, key), True)
                for jobs, key in submissions
            ]

    def _add(self, jobs: Sequence[Submission], key: str | None) -> list[JobId]:
        return self.known(key) or [self._insert(job, key) for job in jobs]

    def known(self, key: str | None) -> list[JobId]:
        """Return the jobs of an earlier submission with this key."""
        if key is None:
            return []
        with _errors(self.path):
            found = self._db.execute("SELECT id FROM jobs WHERE key = ? ORDER BY number", (key,))
            return [JobId(row["id"]) for row in found]

    def _insert(self, job: Submission, key: str | None) -> JobId:
        name, owner = self._free_name(str(job.entry["name"])), job.owner
        values = (
            name,
            json.dumps(job.entry),
            job.directory,
            json.dumps(dict(job.env)),
            time(),
            key,
            *((owner.uid, owner.gid, owner.name) if owner else (None, None, "")),
        )
        self._db.execute(
            "INSERT INTO jobs (id, entry, directory, env, submitted, key, uid, gid, user) "
            "VALUES (?,?,?,?,?,?,?,?,?)",
            values,
        )
        return JobId(name)

    def _free_name(self, name: str) -> str:
        if not self._taken(name):
            return name
        same = "SELECT count(*) FROM {} WHERE id > ? AND id < ? AND id GLOB ?"  # by the index
        between = (f"{name}-", f"{name}.", f"{name}-[0-9]*")
        counts = [self._db.execute(same.format(t), between).fetchone()[0] for t in IDS]
        number = sum(counts) + 2
        while self._taken(_numbered(name, number)):
            number += 1
        return _numbered(name, number)

    def _taken(self, name: str) -> bool:
        query = "SELECT 1 FROM jobs WHERE id = ?1 UNION ALL SELECT 1 FROM former WHERE id = ?1"
        return self._db.execute(query, (name,)).fetchone() is not None

    def after(self, number: int, most: int = -1) -> list[Submitted]:
        """Return the submissions after this number, at most `most`."""
        return self._select("WHERE number > ? ORDER BY number LIMIT ?", number, most)

    def unfinished(self) -> list[Submitted]:
        return self._select("WHERE outcome IS NULL ORDER BY number")

    def count_unfinished(self, uid: int | None = None) -> int:
        """Count the unfinished jobs of one user; None: of all users."""
        of = "" if uid is None else " AND uid = ?"
        counted = f"SELECT count(*) FROM jobs WHERE outcome IS NULL{of}"  # noqa: S608 - constants
        with _errors(self.path):
            return int(self._db.execute(counted, () if uid is None else (uid,)).fetchone()[0])

    def last(self, count: int) -> list[Submitted]:
        """Return the last ended jobs in the order of their end."""
        ended = "WHERE outcome IS NOT NULL ORDER BY finished DESC, number DESC LIMIT ?"
        return self._select(ended, count)[::-1]

    def find(self, job: str) -> Submitted | None:
        return next(iter(self._select("WHERE id = ?", job)), None)

    def named(self, jobs: Collection[str]) -> list[Submitted]:
        """Return the existing jobs with these names."""
        return [found for job in jobs if (found := self.find(job))]

    def page(self, after: int, count: int, outcomes: Collection[str | None]) -> list[Submitted]:
        """Return the first `count` jobs after a number with one of these outcomes;
        None: not ended.
        """
        marks = ",".join("?" * sum(outcome is not None for outcome in outcomes))
        which = [f"outcome IN ({marks})"] if marks else []
        which += ["outcome IS NULL"] if None in outcomes else []
        where = f"WHERE number > ? AND ({' OR '.join(which)}) ORDER BY number LIMIT ?"
        return self._select(where, after, *[o for o in outcomes if o is not None], count)

    def finish(self, job: JobId, end: End) -> None:
        """Store the end of a job. Remove its environment, which may contain secrets."""
        values = (end.outcome, end.reason, end.started, end.finished, end.steps, job)
        with _errors(self.path):
            self._db.execute(
                "UPDATE jobs SET outcome=?, reason=?, started=?, finished=?, steps=?, env='{}' "
                "WHERE id=?",
                values,
            )

    def ends(self) -> list[tuple[JobId, Seconds]]:
        """Return the ended jobs with the time of their end."""
        with _errors(self.path):
            rows = self._db.execute("SELECT id, finished FROM jobs WHERE outcome IS NOT NULL")
            return [(JobId(row["id"]), row["finished"] or 0.0) for row in rows]

    def forget(self, job: JobId) -> None:
        """Remove an ended job. Keep its id."""
        ended = "FROM jobs WHERE id = ? AND outcome IS NOT NULL"
        with _errors(self.path):
            self._db.execute(f"INSERT OR IGNORE INTO former SELECT id {ended}", (job,))
            self._db.execute(f"DELETE {ended}", (job,))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Context in which all changes are one transaction."""
        with _errors(self.path), self._transaction():
            yield

    def wake(self) -> None:
        """Wake the server, which also checks for new submissions from time to time."""
        with suppress(OSError):
            file = os.open(self._run / WAKE, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                if S_ISFIFO(os.fstat(file).st_mode):
                    os.write(file, b".")
            finally:
                os.close(file)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise
        if not self.path.exists():  # SQLite stores on: in a file that nothing will find again
            raise BackendError("this file was removed: nothing is stored", where=str(self.path))

    def _select(self, where: str, *values: Any) -> list[Submitted]:
        with _errors(self.path):
            rows = self._db.execute(f"SELECT * FROM jobs {where}", values).fetchall()  # noqa: S608 - constants
        return [
            Submitted(
                **{k: row[k] for k in ("number", "directory", "submitted", "outcome", "reason")},
                **{k: row[k] for k in ("started", "finished", "steps")},
                id=JobId(row["id"]),
                entry=json.loads(row["entry"]),
                env=json.loads(row["env"]),
                owner=None if row["uid"] is None else Owner(row["uid"], row["gid"], row["user"]),
            )
            for row in rows
        ]


def _create(path: Path) -> None:
    """Create the file with mode 0600. An existing file is not opened: closing it would release the
    locks of this process on the file, on which SQLite depends.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        found = path.stat()
        if found.st_mode & private_files.OTHERS and found.st_uid == os.geteuid():
            path.chmod(0o600)


def _back_up(database: sqlite3.Connection, path: Path, version: int) -> None:
    """Keep a copy that the earlier version of Headway can read: `jobs.db.v1`."""
    kept = path.with_name(f"{FILE}.v{version}")
    if kept.exists():
        return
    part = path.with_name(f"{kept.name}.{os.getpid()}.part")
    try:
        _create(part)
        database.execute("VACUUM INTO ?", (str(part),))
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(kept)
    finally:
        part.unlink(missing_ok=True)


def _numbered(name: str, number: int) -> str:
    end = f"-{number}"
    return name[: LONGEST - len(end)].rstrip("-.") + end


def wake_file(run: Path) -> int:
    """Open the pipe by which clients wake the server, also for writing, so that it is never at its
    end.
    """
    path = run / WAKE
    with suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
