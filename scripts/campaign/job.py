"""The jobs of a trial, which are half of the oracle: they tell what happened to them.

A job holds a lock of its replica while it runs: a second holder means that two attempts ran at the
same time. It appends what it does to a ledger, which Headway neither reads nor writes. Its
"weights" are a number that depends on every step, so that a lost or repeated step shows.
"""

from typing import Any

FACTOR, MODULUS = 6364136223846793005, 2**64
SCRIPT = """
import fcntl, json, os, sys, time
import headway
steps, every = int(sys.argv[1]), int(sys.argv[2])
found = [int(name) for name in os.listdir("/proc/self/fd")]
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
inherited = [fd for fd in found if fd > 2 and is_open(fd)]
home = os.environ.get("CHAOS_LEDGER") or os.environ["HEADWAY_DIR"]
name = os.environ["HEADWAY_JOB"] + "." + os.environ["HEADWAY_REPLICA"]
ledger = os.open(f"{home}/{name}.ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
def tell(event, **more):
    what = {"event": event, "attempt": int(os.environ["HEADWAY_ATTEMPT"]), "pid": os.getpid()}
    os.write(ledger, (json.dumps({**what, "at": time.time(), **more}) + chr(10)).encode())
lock = os.open(f"{home}/{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
try: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: tell("double")
run = headway.attach(total_steps=steps)
step, weights = 0, 1
if every and run.latest:
    step, weights = json.loads((run.latest.folder / "weights").read_text())
tell("start", step=step, inherited=inherited)
def save():
    run.save(step, lambda to: (to / "weights").write_text(json.dumps([step, weights])))
while step < steps:
    end = time.process_time() + 0.006
    while time.process_time() < end: pass
    time.sleep(0.014)
    step, weights = step + 1, (weights * 6364136223846793005 + step + 1) % 2**64
    run.report(step, loss=1 / step)
    if step % 5 == 0: tell("step", step=step)
    if every and (step % every == 0 or run.should_checkpoint()): save()
tell("done", step=step, weights=weights)
"""


def weights(steps: int) -> int:
    """What a job that is not disturbed computes."""
    found = 1
    for step in range(1, steps + 1):
        found = (found * FACTOR + step) % MODULUS
    return found


def job(name: str, python: str, steps: int, ledger: str, **more: Any) -> dict[str, Any]:
    """An entry of a workload. `saves`: it writes checkpoints. `at`, `replicas`."""
    saves, at, replicas = more.get("saves", False), more.get("at", 0.0), more.get("replicas", 1)
    command = [python, "-c", SCRIPT, str(steps), "15" if saves else "0"]
    env = {"CHAOS_LEDGER": ledger} if ledger else {}
    task = {"name": "worker", "command": command, "replicas": replicas, "env": env}
    if saves:  # a ceiling, which the pacer enforces where there is no cgroup
        task["resources"] = {"limits": {"cpu": "0.5"}}
    mode = {"checkpoint": {"mode": "sdk"}} if saves else {}
    spec = {"tasks": [task], "totalSteps": steps, "backoffLimit": 20, **mode}
    return {"name": name, "at": at, "spec": spec}
