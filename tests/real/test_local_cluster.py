"""The cluster policies on nodes that are cut out of this machine."""

import json

import pytest
from local import headway

from headway.core.model.decision import Move
from headway.runtime import journal


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_specon_moves_real_jobs_between_four_nodes_and_every_step_is_done(tmp_path, enforcement):
    """Eight jobs on four nodes of half a core: some are done early, so that others are moved to
    where room is. Every step is done, whatever is moved.
    """
    del enforcement
    sizes = [(2.5, 100), (1.0, 50)]
    jobs = []
    for i in range(8):
        work, steps = sizes[i % 4 == 3]
        profile = {"work": work, "steps": steps}
        jobs.append({"name": f"j{i}", "at": 0.1 * i, "model": "gru", "profile": profile})
    nodes = [{"cpu": 0.5, "count": 4}]
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload", "nodes": nodes, "jobs": jobs}
    path = tmp_path / "w.json"
    path.write_text(json.dumps(head))
    policy = "specon:threshold=0.2,interval=1,unconverged=0"
    headway("run", path, "--policy", policy, data=tmp_path, patience=85)
    (found,) = json.loads((tmp_path / "runs" / "latest" / "result.json").read_text())
    assert [j["outcome"] for j in found["per_job"]] == ["succeeded"] * 8
    assert [j["steps"] for j in found["per_job"]] == [j["profile"]["steps"] for j in jobs]
    assert found["moves"] == sum(j["moves"] for j in found["per_job"])
    reasons = [
        d.reason
        for line in journal.read(tmp_path / "runs" / "latest" / "journal.jsonl")
        for d in line["plan"].decisions
        if isinstance(d, Move)
    ]
    assert found["moves"] >= 1
    assert any("-R" in r or "-M" in r for r in reasons)
