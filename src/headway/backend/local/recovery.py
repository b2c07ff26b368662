"""What an earlier Headway left in a job's folder: who runs, who ended and how. Reads only."""

from headway.backend.local import launcher
from headway.backend.recovery import Past, Try
from headway.backend.state import Work
from headway.backend.transit import planned


def past(work: Work) -> Past:
    found = Past(cancelled=(work.folder / "cancelled").exists())
    replicas = [p for p in sorted(work.folder.glob("*-*")) if p.is_dir()]
    last = max((launcher.last_epoch(p) for p in replicas), default=0)
    for epoch in range(1, last + 1):
        attempt = Try()
        for replica in replicas:
            pid = launcher.claimed_by(replica, epoch)
            if pid is None:
                continue
            claim, end = replica / f"pid.{epoch}", replica / f"exit.{epoch}"
            found.started = found.started or claim.stat().st_mtime
            if launcher.alive(pid, replica):
                attempt.running.add(replica.name)
            else:
                code = attempt.codes[replica.name] = launcher.exit_code(replica, epoch)
                if planned(work, replica.name, epoch, code):
                    attempt.left.add(replica.name)
                found.ended = (end if end.exists() else claim).stat().st_mtime
        found.tries.append(attempt)
    return found
