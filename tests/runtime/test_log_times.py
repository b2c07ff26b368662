"""`headway logs --since`: samples say how long an output was at a time."""

import json
import sys
from datetime import datetime

import pytest
from patience import wait_for

from headway.backend.live import LiveBackend
from headway.backend.memory import MemoryPlatform
from headway.core.model.job import JobSpec
from headway.core.model.units import NodeId, ReplicaId
from headway.errors import ConfigError
from headway.runtime import usage_sampler
from headway.runtime.job_log import read_log
from headway.runtime.log_times import parse_since, printed_until
from headway.runtime.run_directory import RunDirectory
from headway.runtime.usage_sampler import UsageSampler
from headway.spec.runnable import RunnableJob
from making import node

BEGAN = 1_000_000.0
X = ReplicaId("x/main-0")


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"began": BEGAN}))
    (tmp_path / "jobs" / "x" / "main-0").mkdir(parents=True)
    return RunDirectory(tmp_path)


@pytest.fixture
def sampler(run):
    """Samples a replica whose output grows."""
    platform = MemoryPlatform.of([node("a", cpu=1.0)])
    jobs = {"x": RunnableJob(id="x", at=0.0, spec=JobSpec(), commands={})}
    backend = LiveBackend(platform, run.path, jobs, lambda: 0.0)
    backend.monitor.open(X, 1, NodeId("a"), 0.0, resumed=False)
    return UsageSampler(backend, run.usage, slowest=5.0)


def prints(run, text):
    with (run.path / "jobs" / "x" / "main-0" / "out.log").open("a") as file:
        file.write(text)


def since(run, seconds, **options):
    return list(read_log(run, "x", follow=False, since=BEGAN + seconds, **options))


def test_only_lines_after_the_last_sample_before_the_time_are_printed(run, sampler):
    for second in range(1, 6):
        prints(run, f"line {second}\n")
        sampler.look(float(second))
    assert since(run, 0) == [f"line {i}" for i in range(1, 6)]
    assert since(run, 3.5) == ["line 4", "line 5"]
    assert since(run, 3.5, last=1) == ["line 5"]
    assert since(run, 3.5, last=9) == ["line 4", "line 5"]
    assert since(run, 9) == []


def test_a_line_that_was_half_printed_at_the_time_is_printed_whole(run, sampler):
    prints(run, "first\nsec")
    sampler.look(1.0)
    prints(run, "ond\n")
    sampler.look(2.0)
    assert since(run, 1.5) == ["second"]


def test_what_a_replica_printed_before_its_exit_is_not_newer_than_its_exit(run, sampler):
    prints(run, "first\n")
    sampler.look(1.0)
    prints(run, "last\n")
    sampler.backend.monitor.close(X, 1)
    sampler.finish(2.0)
    assert since(run, 1.5) == ["last"]
    assert since(run, 2.5) == []


def test_a_log_that_was_cut_since_the_time_is_printed_from_its_beginning(run):
    sizes = [(1.0, 500), (2.0, 900), (3.0, 20), (4.0, 30)]
    lines = [{"at_s": at, "replicas": {}, "printed": {X: size}} for at, size in sizes]
    run.usage.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"printed": {"x/ma')
    offsets = [printed_until(run, X, BEGAN + at) for at in (0.5, 1.5, 2.5, 3.5, 4.5)]
    assert offsets == [0, 0, 0, 20, 30]


def test_the_times_of_a_long_run_are_in_two_files(run, sampler, monkeypatch):
    monkeypatch.setattr(usage_sampler, "MOST", 100)
    for second in range(1, 4):
        prints(run, f"line {second}\n")
        sampler.look(float(second))
    assert (run.path / "usage.1.jsonl").exists()
    assert since(run, 2.5) == ["line 3"]


def test_an_output_without_samples_is_refused(run):
    prints(run, "line\n")
    with pytest.raises(ConfigError, match="not known yet when x/main-0 printed"):
        since(run, 1)


def test_what_is_not_a_time_is_refused(headway):
    for text in ("yesterday", "10", "10x", "25:00", "m"):
        with pytest.raises(ConfigError, match="is not a time"):
            parse_since(text, datetime(2026, 1, 2, 12))  # noqa: DTZ001 - local
    ran = headway("logs", "x", "--since", "ten")
    assert (ran.code, "'ten' is not a time" in ran.err) == (2, True)


def test_logs_since_shows_the_end_of_the_output_of_a_server(headway, serving, tmp_path):
    serving()
    (tmp_path / "train.py").write_text(
        "import os, time\n"
        "print('early', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "print('late', flush=True)\n"
    )
    headway("submit", "--", sys.executable, tmp_path / "train.py")
    usage = next((tmp_path / "data" / "runs").glob("2*")) / "usage.jsonl"
    wait_for(lambda: usage.exists() and '"printed": {"train/main-0": 6}' in usage.read_text())
    wait_for(lambda: headway("logs", "train", "--since", "0.2s").out == "")
    (tmp_path / "go").touch()
    assert headway("wait", "train").code == 0
    assert headway("logs", "train", "--since", "1h").out == "early\nlate\n"
    wait_for(lambda: headway("logs", "train", "--since", "0s").out == "")
