"""DRAGON with real trainings on a real cluster: what it decides, it carries out, and each job ends
once with all its steps.

With HEADWAY_FIGURES, the jobs also run under kube-scheduler's own placement (`spread`),
and a line of figures is appended to that file.
"""

import json
import os
import re
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import fmean

from elastic import digests, undisturbed
from patience import PATIENCE
from pod_watch import PodWatch
from test_kubernetes_elastic import policy, training, volume

FIGURES = os.environ.get("HEADWAY_FIGURES", "")
DRAGON = "dragon:starve_after=4,grow_after=4,restart=0.1"
SIGTERM = {"mode": "sigterm", "graceSeconds": 20}
WRITES = """
import os, sys
log = f"/headway/{os.environ['HEADWAY_REPLICA']}.log"
os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""All attempts print to a file of the shared volume. A log is lost with its pod, which is deleted
to save the job, also if the training ends by itself meanwhile.
"""


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


def times(jobs, names):
    """Elapsed time of all, and mean completion, in seconds."""
    found = [jobs.status(name) for name in names]
    began = [seconds(s["enqueueTime"]) for s in found]
    ended = [seconds(s["finishTime"]) for s in found]
    took = [end - begin for begin, end in zip(began, ended, strict=True)]
    return {"elapsed_s": max(ended) - min(began), "mean_s": round(fmean(took), 1)}


def note(name, figures):
    if FIGURES:
        with Path(FIGURES).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, **figures}) + "\n")


@contextmanager
def watching(cluster, jobs):
    watch = PodWatch(cluster, jobs)
    try:
        yield watch
    finally:
        watch.close()


THREE, LAST = ("one", "two", "three"), "four"
STEPS = {"one": 120, "two": 160, "three": 200, LAST: 60}


def submit(jobs, name, folder):
    sizes = {"replicas": 2, "most": 4, "steps": STEPS[name], "cpu": "140m"}
    server, worker = training("ps-sync", **sizes, **volume(folder))
    worker["command"] = ["python3", "-c", WRITES, *worker["command"]]
    jobs.submit(name, server, worker, checkpoint=SIGTERM)


def finished(cluster, jobs, folders):
    """All four have ended once, with every sample of every step."""
    names = (*THREE, LAST)
    cluster.until(lambda: all(jobs.status(n).get("finishTime") for n in names), 10 * PATIENCE)
    for name in names:
        status = jobs.status(name)
        assert (status["phase"], status["failures"]) == ("Succeeded", 0), name
        # One that exits with 0 in the second in which it is asked to save counts as saved, and
        # trains the steps since its last checkpoint again.
        _, *ends = (folders[name] / "worker-0.log").read_text().split("samples: ")
        assert {digests(f"samples: {end}") for end in ends} == {undisturbed(STEPS[name])}, name
    return times(jobs, names)


def decided(jobs, name, what):
    return [told for told in jobs.told(name, "Decided") if what in told]


def test_dragon_takes_workers_for_a_fourth_job_and_gives_them_back(
    cluster, operator, jobs, tmp_path
):
    """Three jobs with a parameter server each fill the cluster, and a fourth waits."""
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    folders = {name: tmp_path / name for name in (*THREE, LAST)}
    with policy(cluster, operator, DRAGON), watching(cluster, jobs) as watch:
        for name in THREE:
            submit(jobs, name, folders[name])
        cluster.until(lambda: all(jobs.phase(n) == "Running" for n in THREE), 2 * PATIENCE)
        submit(jobs, LAST, folders[LAST])
        cluster.until(lambda: jobs.phase(LAST) == "Running", 4 * PATIENCE)
        taken = [told for name in THREE for told in decided(jobs, name, "remove ")]
        assert taken, "the fourth starts before one of the others ends"
        figures = finished(cluster, jobs, folders)
        removed = re.findall(r"(\w+)-(\d+)", " ".join(t.partition(":")[0] for t in taken))
        assert {task for task, _ in removed} == {"worker"}, "never a parameter server"
        assert "0" not in {index for _, index in removed}, "never the chief"
        grown = [t for n in THREE for t in decided(jobs, n, "add ")]
        for name in (*THREE, LAST):
            watch.check_attempts(name)
            assert min(counts(watch, name)) >= 2, "a gang starts whole: a server and a worker"
        note("dragon", {**figures, "taken": len(taken), "grown": len(grown)})
        cluster("delete", "tj", *THREE, LAST)
    if FIGURES:
        again = {name: tmp_path / f"{name}-again" for name in folders}
        for name, folder in again.items():
            submit(jobs, name, folder)
        note("spread", finished(cluster, jobs, again))


def counts(watch, job):
    """Pods of each attempt of a job that trained."""
    found = [gang for (name, _), gang in watch.gangs().items() if name == job]
    return [len(gang) for gang in found if any(trained(pod) for pod in gang)]


def trained(pod):
    told = pod["status"].get("containerStatuses") or ()
    return any(c["name"] == "training" and "waiting" not in c["state"] for c in told)
