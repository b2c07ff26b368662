"""A cluster state survives the trip through a journal's first line."""

import json

from headway.core.cycle.cluster_state import remember
from headway.core.cycle.folded_state import fold_state, unfold_state
from headway.core.model.job import Phase, Task
from headway.core.model.report import Report, Usage
from headway.core.model.serialization import from_plain, to_json
from headway.core.model.snapshot import Observation
from headway.core.model.units import ReplicaId
from making import history, job, node, replica


def test_what_is_folded_is_unfolded_again():
    gang = job("g", tasks=(Task(name="worker", replicas=2, most=2),))
    before = history(
        nodes=(node("b", cpu=2.0), node("a", cpu=2.0)),
        jobs=[job("x"), gang, job("p", phase=Phase.PENDING), job("q", phase=Phase.PENDING)],
        replicas=[
            replica("x", on="b"),
            *(replica("g", task="worker", index=i, on="a") for i in range(2)),
        ],
    )
    for at in (1.0, 2.0):
        reports = tuple(
            Report(
                replica=ReplicaId(r), since=at - 1, at=at, step=at, value=1 / at, usage=Usage(cpu=1)
            )
            for r in ("x/main-0", "g/worker-1")
        )
        remember(before, Observation(at=at, reports=reports))
    gone = replica("g", task="worker", index=1, on="a", phase=Phase.FAILED)
    first = job("p", phase=Phase.RUNNING)
    remember(before, Observation(at=3.0, jobs=(first,), replicas=(gone,)))
    remember(before, Observation(at=4.0, jobs=(job("p", phase=Phase.PENDING),)))
    assert before.former
    assert before.totals
    assert list(before.queue) == ["q", "p"]
    after = unfold_state(from_plain(json.loads(to_json(fold_state(before)))))
    for name in ("at", "capabilities", "nodes", "jobs", "replicas", "former", "totals", "queue"):
        assert getattr(after, name) == getattr(before, name), name
    assert list(after.queue) == list(before.queue)
    assert after.on_node == before.on_node
