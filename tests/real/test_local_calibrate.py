"""The speed of a distributed job, measured with real processes."""

import csv
import json

import pytest
import yaml
from local import workload
from typer.testing import CliRunner

from headway.cli import app
from headway.core.model.job import JobSpec
from headway.spec.load import read_workload
from headway.spec.runnable import to_jobs


def command(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.mark.alone
@pytest.mark.long
def test_the_speed_of_a_distributed_job_is_measured_and_used(tmp_path):
    job = {"name": "x", "model": "ps-sync", "workers": {"replicas": 1, "max": 2}}
    job["profile"] = {"steps": 100_000, "work": 5000.0}
    link = {"bandwidth": "4Mi", "delay_s": "1ms"}
    path = workload(tmp_path, job, nodes=[{"cpu": 0.5, "count": 2}], link=link)
    (found,) = json.loads(command("calibrate", path, "--seconds", 8, "--json"))
    speed = found["speed"]
    assert (speed["kind"], speed["compute"] > 0, speed["error"] >= 0) == ("sync", True, True)
    assert "foreign_cores" in found
    assert speed["transfer_s"] * speed["penalty"] > 0.05, "0.6 MB or more in each step"
    assert speed["penalty"] > 2, "the link is slower than a node"
    measured = path.with_suffix(".measured.yaml")
    (entry,) = yaml.safe_load(measured.read_text())["jobs"]
    assert entry["measured"]["speed"]["compute"] == speed["compute"]
    with path.with_suffix(".measured.x.speed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(r["workers"], r["placement"]) for r in rows} >= {("2", "same"), ("2", "other")}
    assert all(float(r["steps_per_s"]) > 0 for r in rows)
    (real,) = to_jobs(read_workload(measured), measured)
    assert isinstance(real.spec, JobSpec)
    assert real.spec.speed.compute == speed["compute"], "policies of a real run use it"
    (result,) = json.loads(command("simulate", measured, "--policy", "optimus", "--json"))
    assert result["per_job"][0]["outcome"] == "succeeded"
