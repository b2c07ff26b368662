"""Distributed trainings on virtual nodes with a link between them."""

import json
import signal

from elastic import Training, digests, running, spec, undisturbed, words
from local import processes, result, workload
from patience import wait_for

from headway.backend import inbox, procfs
from headway.core.model.snapshot import Request

STEPS = 12
BANDWIDTH = 2.0**20
SENT = 12 * 6586 * 8
"""Bytes of the gradients of a step: of each chunk, 6586 parameters."""


def distributed(name, cpu, command):
    """Its parameter server and its worker each request this part of a core."""
    made = spec(command)
    for task in made["tasks"]:
        task["resources"] = {"requests": {"cpu": cpu}}
    return {"name": name, "spec": made}


def relay(data):
    return procfs.marked(HEADWAY_DIR=str((data / "runs" / "latest").resolve()))


def test_a_job_on_two_nodes_has_the_link_between_its_replicas_and_one_on_a_node_has_not(tmp_path):
    command = words(steps=STEPS, demand=1)
    jobs = distributed("far", 0.4, command), distributed("near", 0.1, command)
    link, nodes = {"bandwidth": BANDWIDTH}, [{"cpu": 0.6, "count": 2}]
    path = workload(tmp_path, *jobs, nodes=nodes, link=link)
    with running("run", path, "--policy", "gang+locality", data=tmp_path) as run:
        assert run.wait(120) == 0
    times = {j["name"]: j["finished_s"] - j["submitted_s"] for j in result(tmp_path)["per_job"]}
    assert times["far"] > STEPS * SENT / BANDWIDTH
    assert times["far"] > times["near"]
    for name in times:
        assert digests(Training(tmp_path, name).log()) == undisturbed(STEPS)
    assert processes(tmp_path) == []


def test_the_link_stays_while_headway_is_killed_and_the_job_is_scaled_later(tmp_path):
    path = workload(
        tmp_path,
        distributed("x", 0.4, words(steps=60)),
        nodes=[{"cpu": 0.5, "count": 4}],
        link={"bandwidth": "16Mi", "delay_s": "1ms"},
    )
    x = Training(tmp_path)
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.proceeds()
        (before,) = relay(tmp_path)
        run.send_signal(signal.SIGKILL)
        run.wait()
        x.proceeds()
        assert relay(tmp_path) == [before], "the training was not interrupted"
    latest = (tmp_path / "runs" / "latest").resolve()
    with running("run", "--resume", "latest", data=tmp_path) as run:
        inbox.put(latest, Request(job="x", wish="scale", task="worker", count=2))
        wait_for(lambda: x.joined(1))
        (after,) = relay(tmp_path)
        assert after != before, "each start of the job has its own"
        assert run.wait(120) == 0
    (found,) = json.loads((tmp_path / "runs" / "latest" / "result.json").read_text())
    assert [j["outcome"] for j in found["per_job"]] == ["succeeded"]
    assert digests(x.log()) == undisturbed(60)
    assert processes(tmp_path) == []
