"""`headway operator` with one more policy, `scripted`, which decides the shares that a file names.

    python scripted_operator.py FILE operator …

The file has limit and weight by replica: {"default/x/worker-0": [0.1, 3.0]}. Shares are
changed, and the state for the next leader is written, once a second and not once in ten seconds.
"""

import json
import sys
from pathlib import Path

from headway.backend.kubernetes.platform.shares import Shares, ShareTimes
from headway.cli import main
from headway.core.model.decision import Plan, SetShare
from headway.core.model.serialization import record
from headway.core.model.units import ReplicaId
from headway.policy import registry
from headway.runtime import leader_state

INTERVAL = 1.0


@record
class Scripted:
    about = "the shares that a file names"
    name: str = "scripted"
    listens: bool = False

    def begin(self):
        return None

    def decide(self, snapshot, memory):
        wanted = json.loads(FILE.read_text())
        here = {r.id: (r.limit, r.weight) for r in snapshot.adjustable}
        changed = [
            SetShare(replica=name, limit=limit, weight=weight, reason="the file says so")
            for name, (limit, weight) in ((ReplicaId(k), v) for k, v in wanted.items())
            if name in here and here[name] != (limit, weight)
        ]
        return Plan(decisions=tuple(changed), wake_after=0.2), memory


if __name__ == "__main__":
    FILE = Path(sys.argv.pop(1))
    Shares.__init__.__defaults__ = (ShareTimes(interval=INTERVAL),)
    leader_state.EVERY = INTERVAL
    registry.POLICIES["scripted"] = registry.Entry(Scripted, "shares")
    main()
