"""Faults at named points, for crash tests: `HEADWAY_FAULT` says what fails where.

    HEADWAY_FAULT=journal.settle=kill              die at the first hit of this point
    HEADWAY_FAULT=*@17=kill                        at the 17th hit of any point
    HEADWAY_FAULT=state.*@2=enospc,*@40=kill       several faults, each at most once
    HEADWAY_FAULT=usage.append@3+=eio              at the third hit and all later ones
    HEADWAY_FAULT=4711                             a fault drawn from this seed

Actions: `kill` (SIGKILL), `stop` (SIGSTOP), `short` (half of the data is written), `enospc` and
`eio` (the call fails), `delay:SECONDS`, and `trace:FILE` (append the name of the point to a file).
Points in the shell between Headway and a local job (`shim.*`) know `kill`, `stop` and `delay`; `*`
alone does not include them.

`HEADWAY_CRASH_AFTER_WRITES=N` is short for `*@N=kill`. With N = 1, 2, … every gap between two
points is tried.
"""

import errno
import os
import re
import signal
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from threading import Lock
from time import sleep

ERRORS = {"enospc": errno.ENOSPC, "eio": errno.EIO}
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
ACTIONS = (*SIGNALS, *ERRORS, "short", "delay")
DRAWN = 120
"""A fault of a seed is at one of the first so many hits."""
_RULE = re.compile(r"([\w.*?-]+)(?:@(\d+)(\+?))?=(\w+)(?::([^,]*))?")
_MARK = re.compile(r"^ *# failpoint (\S+)$", re.MULTILINE)
_lock = Lock()


@dataclass(slots=True)
class Rule:
    points: str
    """A name, or a pattern with `*`."""
    at: int
    onward: bool
    action: str
    value: str = ""
    hits: int = 0

    def fires(self, point: str) -> bool:
        if not fnmatchcase(point, self.points):
            return False
        self.hits += 1
        return self.hits == self.at or (self.onward and self.hits > self.at)

    def act(self, point: str, data: bytes) -> bytes:
        if self.action == "trace":
            with Path(self.value).open("a", encoding="utf-8") as file:
                file.write(f"{point}\n")
        elif self.action == "delay":
            sleep(float(self.value or 0.5))
        elif self.action == "short":
            return data[: len(data) // 2]
        elif self.action in ERRORS:
            number = ERRORS[self.action]
            raise OSError(number, os.strerror(number), point)
        else:
            os.kill(os.getpid(), SIGNALS[self.action])
        return data


def parse(spec: str) -> list[Rule]:
    """The rules of a specification: a seed, or a list."""
    if spec.isdigit():
        dice = Random(int(spec))
        return [Rule("*", dice.randint(1, DRAWN), onward=False, action=dice.choice(ACTIONS))]
    rules = []
    for text in filter(None, spec.split(",")):
        found = _RULE.fullmatch(text)
        if found is None or found[4] not in (*ACTIONS, "trace"):
            raise ValueError(f"HEADWAY_FAULT: invalid rule {text!r}; see headway/failpoint.py")
        onward = bool(found[3])
        rules.append(Rule(found[1], int(found[2] or 1), onward, found[4], found[5] or ""))
    return rules


def arm(spec: str) -> None:
    """Replace the faults of this process; "": none."""
    _rules[:] = parse(spec)


def hit(point: str, data: bytes = b"") -> bytes:
    """Called just before every durable write and every call that changes the platform. Returns
    the data to write, which is all of it unless a fault cuts it.
    """
    if _rules:
        with _lock:
            due = [rule for rule in _rules if rule.fires(point)]
        for rule in due:
            data = rule.act(point, data)
    return data


def in_shell(script: str) -> str:
    """Replace lines `# failpoint NAME` of a shell script by the faults that are due there."""
    return _MARK.sub(lambda mark: _shell(mark[1]), script) if _rules else script


def _shell(point: str) -> str:
    ours = [r for r in _rules if r.points.startswith("shim") or r.action == "trace"]
    with _lock:
        due = [rule for rule in ours if rule.fires(point)]
    lines = []
    for rule in due:
        if rule.action in SIGNALS:
            lines.append(f"kill -{SIGNALS[rule.action].name.removeprefix('SIG')} $$")
        elif rule.action == "delay":
            lines.append(f"sleep {float(rule.value or 0.5)}")
        elif rule.action == "trace":
            rule.act(point, b"")
    return "\n".join(lines)


_rules: list[Rule] = []
_writes = os.environ.get("HEADWAY_CRASH_AFTER_WRITES")
arm(os.environ.get("HEADWAY_FAULT", "") or (f"*@{_writes}=kill" if _writes else ""))
