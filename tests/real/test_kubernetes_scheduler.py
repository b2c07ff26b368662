"""`spread` against the real kube-scheduler, on random sequences of pods.

The nodes have no kubelet: only where a pod is bound matters. Each of its choices must be among the
nodes that `spread` scores highest. Which of them it takes, and how many pods each node has at the
end, must agree with random ties within sampling error (chi-square, p = 0.001).
"""

import json
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from headway.backend.kubernetes.client.api import connect
from headway.core.model.job import Phase, Task
from headway.core.model.node import Node
from headway.core.model.units import NodeId, Resources
from headway.policy.placement.spread import KubeSearch, Spread
from making import GIB, job, replica, snapshot

SEQUENCES = int(os.environ.get("HEADWAY_POD_SEQUENCES", "12"))
DRAWS = 20
"""Runs of `spread` for each sequence."""
LABEL = "headway-test/pool"
PODS = "/api/v1/namespaces/default/pods"
MB = 10**6
POOLS = {
    "same": [(16, 64)] * 4,
    "mixed": [(16, 64), (16, 64), (8, 64), (8, 32), (4, 16)],
}
IMAGES = {"same-0": ["big:1"], "same-1": ["small:1"], "mixed-2": ["big:1"], "mixed-3": ["big:1"]}
SIZES = {"big:1": 4000 * MB, "small:1": 900 * MB}


def nodes():
    return [
        Node(
            id=NodeId(f"{pool}-{i}"),
            capacity=Resources(cpu=float(cpu), memory=memory * GIB),
            images=tuple((name, SIZES[name]) for name in IMAGES.get(f"{pool}-{i}", ())),
        )
        for pool, sizes in POOLS.items()
        for i, (cpu, memory) in enumerate(sizes)
    ]


def manifest(node):
    there = {"cpu": str(int(node.capacity.cpu)), "memory": str(int(node.capacity.memory))}
    there["pods"] = "110"
    images = [{"names": [name], "sizeBytes": size} for name, size in node.images]
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    ready = {"type": "Ready", "status": "True", "reason": "Test", "lastHeartbeatTime": now}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.id, "labels": {LABEL: node.id.partition("-")[0]}},
        "status": {
            "capacity": there,
            "allocatable": there,
            "images": images,
            "conditions": [ready],
        },
    }


@pytest.fixture
def api(cluster):
    found = connect(cluster.kubeconfig)
    made = nodes()
    try:
        for node in made:
            found.create("/api/v1/nodes", manifest(node))
        beat(found, made)
        cluster.until(lambda: all(not taints(found, node) for node in made))
        yield found
    finally:
        for node in made:
            found.delete(f"/api/v1/nodes/{node.id}")


def taints(api, node):
    return api.get(f"/api/v1/nodes/{node.id}")["spec"].get("taints")


def beat(api, made):
    """A node without news for 40 s counts as lost."""
    for node in made:
        api.patch(f"/api/v1/nodes/{node.id}/status", {"status": manifest(node)["status"]})


def sequence(dice):
    """A pool, and what happens: pods with their tasks, and pods that end."""
    pool = dice.choice(list(POOLS))
    allowed = tuple(NodeId(f"{pool}-{i}") for i in range(len(POOLS[pool])))
    bare = dice.random() < 0.5  # as in the thesis
    steps, alive = [], []
    for i in range(dice.randint(10, 16)):
        if alive and dice.random() < 0.25:
            steps.append(("end", alive.pop(dice.randrange(len(alive)))))
        request = {}
        if dice.random() < 0.5:
            request["cpu"] = dice.choice([0.1, 0.25, 0.5, 1.0])
        if dice.random() < 0.4:
            request["memory"] = dice.choice([128, 256, 1000, 2048]) * 2.0**20
        image = dice.choice(["", "", "big:1", "small:1", "none:1"])
        asks = {} if bare else {"request": Resources(**request), "image": image}
        steps.append((f"p{i}", Task(nodes=allowed, **asks)))
        alive.append(f"p{i}")
    return pool, steps


def pod(name, task, pool):
    asked = {}
    if task.request.cpu:
        asked["cpu"] = f"{task.request.cpu * 1000:.0f}m"
    if task.request.memory:
        asked["memory"] = str(int(task.request.memory))
    inside = {"name": "main", "image": task.image or "x:1", "resources": {"requests": asked}}
    spec = {"containers": [inside], "nodeSelector": {LABEL: pool}}
    return {"metadata": {"name": name}, "spec": {**spec, "terminationGracePeriodSeconds": 0}}


def real(cluster, api, pool, steps):
    """Where kube-scheduler binds each pod. Pods between two ends are created at once."""
    there = {}

    def bound():
        waits = [name for name, node in there.items() if node is None]
        there.update((n, api.get(f"{PODS}/{n}")["spec"].get("nodeName")) for n in waits)
        return None not in there.values()

    for name, task in steps:
        if name == "end":
            cluster.until(bound)
            api.delete(f"{PODS}/{task}", grace=0)
        else:
            api.create(PODS, pod(name, task, pool))
            there[name] = None
    cluster.until(bound)
    for name in there:
        api.delete(f"{PODS}/{name}", grace=0)
    return there


def before(made, tasks, there, new, seed=None):
    """The snapshot in which the pod `new` waits beside those of `there`."""
    running = [replace(job(n, tasks=(tasks[n],)), phase=Phase.RUNNING) for n in there]
    waits = replace(job(new, phase=Phase.PENDING, tasks=(tasks[new],)), draw=seed)
    placed = [replica(n, on=on) for n, on in there.items()]
    return snapshot(nodes=made, jobs=[*running, waits], replicas=placed)


def walk(steps, choose):
    """Play a sequence; `choose` says where a pod goes. What is there at the end."""
    tasks = {name: task for name, task in steps if name != "end"}
    there = {}
    for name, task in steps:
        if name == "end":
            del there[task]
        else:
            there[name] = choose(name, tasks, there)
    return there


def drawn(made, steps, seed):
    def choose(name, tasks, there):
        plan, _ = Spread().decide(
            before(made, tasks, there, name, seed * 100 + int(name[1:])), None
        )
        return plan.decisions[0].where[0][1]

    return walk(steps, choose)


def unevenness(there, pool):
    count = Counter(there.values())
    found = [count[f"{pool}-{i}"] for i in range(len(POOLS[pool]))]
    return max(found) - min(found)


def chi_square(found, expected):
    """The statistic, and what it exceeds once in a thousand times (Wilson and Hilferty). The first
    part of a class is its group, whose total is given; rare classes are one.
    """
    rare = [k for k in expected if expected[k] < 5]
    pairs = [(found[k], expected[k]) for k in expected if k not in rare]
    if rare:
        pairs.append((sum(found[k] for k in rare), sum(expected[k] for k in rare)))
    free = max(1, len(pairs) - len({group for group, _ in expected}))
    least = 2 / (9 * free)
    return sum((f - e) ** 2 / e for f, e in pairs), free * (1 - least + 3.09 * least**0.5) ** 3


class Differs(AssertionError):
    """kube-scheduler has chosen a node that has not the highest score."""


def test_spread_places_pods_as_the_real_kube_scheduler_does(cluster, api):
    others = nodes()
    known = {node.id for node in others}
    listed, _ = api.list("/api/v1/nodes")
    strange = [n["metadata"]["name"] for n in listed if n["metadata"]["name"] not in known]
    made = [*others, *(Node(id=NodeId(name), capacity=Resources(cpu=1.0)) for name in strange)]
    ranks, ends, expected = Counter(), Counter(), Counter()
    for number in range(SEQUENCES):
        pool, steps = sequence(Random(f"pods/{number}"))
        beat(api, others)
        found = Counter()
        for last in (False, False, True):
            bound = real(cluster, api, pool, steps)
            found.clear()

            def as_bound(name, tasks, there, bound=bound, number=number, found=found):
                search = KubeSearch(before(made, tasks, there, name), "1.34")
                tied = [search.snapshot.names[i] for i in search.highest(tasks[name])]
                if bound[name] not in tied:
                    raise Differs(number, name, tasks[name], there, bound[name], tied)
                found[len(tied), tied.index(bound[name])] += 1
                return bound[name]

            try:
                there = walk(steps, as_bound)
                break
            except Differs:  # on a busy machine, it may not know yet that earlier pods are gone
                if last:
                    raise
        ranks += found
        ends[pool, unevenness(there, pool)] += 1
        for seed in range(DRAWS):
            there = drawn(made, steps, number * DRAWS + seed)
            expected[pool, unevenness(there, pool)] += 1 / DRAWS
    uniform = Counter()
    for (size, _), count in ranks.items():
        for place in range(size):
            uniform[size, place] += count / size
    choices = {k: n for k, n in uniform.items() if k[0] > 1}
    figures = {
        "sequences": SEQUENCES,
        "pods": ranks.total(),
        "in ties": round(sum(choices.values())),
    }
    for name, pair in {"ties": (ranks, choices), "pods per node": (ends, expected)}.items():
        value, bar = chi_square(*pair)
        figures |= {f"chi-square, {name}": round(value, 2), f"bar, {name}": round(bar, 2)}
        assert value < bar, (name, *pair)
    if path := os.environ.get("HEADWAY_FIGURES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
