"""What agents and operator use for twenty pods that print. Only as evidence: it takes minutes."""

import json
import os
from pathlib import Path
from time import monotonic, sleep

from operators import Jobs, task
from test_kubernetes_reports import AGENTS, HOME, LONG, progress, release  # noqa: F401 - a fixture

from headway.backend.kubernetes.agent import pod_cgroups

PODS, SECONDS = 20, 60
PRINTS = """
import time
for i in range(1, 10**6):
    time.sleep(1)
    print(f"step {i}/100000 loss {1 / i:.6f}", flush=True)
"""
MOST = {AGENTS: (0.01, 60), HOME: (0.03, 150)}
"""Cores and MiB of a pod, by namespace."""


if LONG:

    def test_agents_and_operator_cost_little(cluster, release):
        del release
        jobs, names = Jobs(cluster, None), [f"many-{i}" for i in range(PODS)]
        for name in names:
            jobs.submit(name, task(cpu="10m", command=["python3", "-c", PRINTS]))
        cluster.until(lambda: all(progress(jobs, name).get("step") for name in names), 300)
        groups = {}
        for space in MOST:
            for pod in cluster.get("pods", namespace=space)["items"]:
                group = pod_cgroups.find("/sys/fs/cgroup", pod["metadata"]["uid"])
                groups[space, pod["metadata"]["name"]] = group, group.read().cpu
        began = monotonic()
        sleep(SECONDS)
        took = monotonic() - began
        used = {key: (group.read(), before) for key, (group, before) in groups.items()}
        costs = {k: ((u.cpu - before) / took, u.memory / 2**20) for k, (u, before) in used.items()}
        noted = {
            name: f"{cpu:.4f} cores, {size:.0f} MiB" for (_, name), (cpu, size) in costs.items()
        }
        if path := os.environ.get("HEADWAY_FIGURES"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(noted) + "\n")
        for (space, _), (cpu, size) in costs.items():
            assert (cpu < MOST[space][0], size < MOST[space][1]) == (True, True), noted
