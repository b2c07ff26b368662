"""How a job on this machine reports over HTTP: an address, and a token of its own.

The token names the replica and is signed with a key of the run, so that nothing is stored for each
job, and the next server knows the tokens of jobs that run. It allows reports of this replica only.
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
"""Port and key, in the folder of the run."""
TOKEN_FILE = "report-token"  # noqa: S105 - the name of a file
"""In the folder of the replica."""
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
    """0: none yet."""

    @classmethod
    def of(cls, run: Path) -> "ReportChannel":
        """That of an earlier server of the run: its jobs know the port and have tokens."""
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
        """None: the token is not one of this run."""
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
        """Write the token of a replica to its folder; return its variables."""
        folder.mkdir(parents=True, exist_ok=True)
        job_files.replace_file(folder, TOKEN_FILE, self.token(reporter), 0o600)
        return http_reports.variables(f"http://127.0.0.1:{self.port}", str(folder / TOKEN_FILE))
