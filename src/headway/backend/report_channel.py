"""Reports over HTTP from jobs on this machine: the address, and a token for each replica.

The token names the replica and is signed with a key of the run. So no tokens are stored, and the
next server accepts those of running jobs. A token allows only reports of its replica.
"""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadEncoding
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes

from headway.backend import durable
from headway.core.model.units import JobId, ReplicaId
from headway.metrics import http_reports, job_files

FILE = "reports.json"
"""File in the run directory with port and key."""
TOKEN_FILE = "report-token"  # noqa: S105 - the name of a file
"""File in the folder of the replica."""
DIGEST = "sha256"


@dataclass(frozen=True, slots=True)
class Reporter:
    """The replica that a token may report for, and its metric."""

    replica: ReplicaId
    metric: str


@dataclass(slots=True)
class ReportChannel:
    key: bytes
    port: int = 0
    """0: not set yet."""

    @classmethod
    def of(cls, run: Path) -> "ReportChannel":
        """Load the channel of an earlier server of the run, whose jobs use it; otherwise create
        one.
        """
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads((run / FILE).read_text(encoding="ascii"))
            return cls(bytes.fromhex(stored["key"]), int(stored["port"]))
        return cls(token_bytes(32))

    def store(self, run: Path) -> None:
        durable.write(run / FILE, json.dumps({"port": self.port, "key": self.key.hex()}))

    def token(self, reporter: Reporter) -> str:
        told = [reporter.replica.job, reporter.replica.name, reporter.metric]
        payload = urlsafe_b64encode(json.dumps(told).encode())
        return f"{payload.decode()}.{self._sign(payload)}"

    def reporter(self, token: str) -> Reporter | None:
        """Return the replica of a token; None: the token is not valid."""
        payload, _, signature = token.encode(errors="replace").partition(b".")
        if not hmac.compare_digest(self._sign(payload).encode(), signature):
            return None
        with suppress(BadEncoding, ValueError):
            job, replica, metric = json.loads(urlsafe_b64decode(payload))
            return Reporter(ReplicaId.named(JobId(job), replica), metric)
        return None

    def _sign(self, payload: bytes) -> str:
        return hmac.new(self.key, payload, DIGEST).hexdigest()

    def open_for(self, folder: Path, reporter: Reporter) -> dict[str, str]:
        """Write the token of a replica to its folder. Return its environment variables."""
        folder.mkdir(parents=True, exist_ok=True)
        job_files.replace_file(folder, TOKEN_FILE, self.token(reporter), 0o600)
        return http_reports.variables(f"http://127.0.0.1:{self.port}", str(folder / TOKEN_FILE))
