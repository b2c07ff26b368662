"""FlowCon where it was born: its first experiment (E-F1), scaled, with three containers that
somebody else runs. Its limits are read back from the engine and from the kernel's account.
"""

import json
import os
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from subprocess import PIPE, Popen
from sys import executable
from time import monotonic, sleep

import pytest
from patience import Deadline, end_of, wait_for

from headway.backend.docker import cpu_limits, stats
from headway.backend.usage import UsageSample
from headway.core.model.decision import Applied, SetShare, Started
from headway.runtime import journal

SCALE = float(os.environ.get("HEADWAY_FLOWCON_SCALE", "12"))
"""Seconds of the paper to one of ours."""
PART = float(os.environ.get("HEADWAY_FLOWCON_PART", "0.6"))
"""Of the work that the paper's jobs have."""
PAIRS = int(os.environ.get("HEADWAY_FLOWCON_PAIRS", "1"))
"""Runs with the ceilings, each beside one without."""
FLOWCON = f"flowcon:paper,interval={20 / SCALE:g},threshold={0.01 * SCALE:g}"
WAYS = {
    "cpus": {"NanoCpus": 1_000_000_000},
    "quota": {"CpuQuota": 50_000, "CpuPeriod": 50_000},
    "nothing": {},
}
# As the catalogue has E-F1: model, arrival and core-seconds; each container is created in its way.
JOBS = {
    "vae": ("vae", 0, 260, 350, WAYS["cpus"]),
    "mnist-p": ("cnn", 40, 106, 300, WAYS["quota"]),
    "mnist-t": ("cnn", 80, 28.2, 300, WAYS["nothing"]),
}


@dataclass
class Watched:
    """A container, as the engine and the kernel tell of it while it runs."""

    id: str
    began: float
    ended: float = 0.0
    gauge: object = None
    shares: list = field(default_factory=list)
    """What `inspect` says: at, ceiling."""
    used: list = field(default_factory=list)
    """What the control group says: at, sample."""
    last: dict = field(default_factory=dict)
    """What `inspect` says at the end."""

    def ceilings(self):
        """One after the other, each once."""
        return [limit for limit, _ in groupby(limit for _, limit in self.shares)]

    def stretches(self):
        """Ceiling, and cores used under it, wherever it stayed for a second."""
        for limit, part in groupby(self.shares, key=lambda s: s[1]):
            times = [at for at, _ in part]
            inside = [(t, s) for t, s in self.used if times[0] + 0.2 <= t <= times[-1]]
            if len(inside) > 1 and inside[-1][0] - inside[0][0] > 1.0:
                (t0, s0), (t1, s1) = inside[0], inside[-1]
                yield limit, (s1.cpu - s0.cpu) / (t1 - t0)


GATED = """
import os, runpy, time
while not os.path.exists("/gate/open"): time.sleep(0.02)
runpy.run_module("headway.trainings", run_name="__main__", alter_sys=True)
"""
"""A training that begins when Headway does: on a loaded machine it could be over before."""


def command(model, work, rate):
    steps = 200
    batches = max(1, round(PART * work / SCALE * rate / steps))
    words = ["--steps", str(steps), "--batches", str(batches)]
    return ["python3", "-u", "-c", GATED, model, *words]


def look(engine, w, now):
    said = engine.inspect(w.id)
    if not said["State"]["Running"]:
        w.ended = w.ended or now
        return
    w.gauge = w.gauge or stats.group_of(said["State"]["Pid"], w.id)
    limit, _ = cpu_limits.share(said["HostConfig"], 1.0)
    w.shares.append((now, limit))
    try:
        w.used.append((now, w.gauge.read(None)))
    except OSError:
        w.used.append((now, w.used[-1][1] if w.used else UsageSample()))


def experiment(engine, data, policy):
    """All three to their end, and removed; what was seen of each, and what Headway says."""
    words = ["adopt", "--label", "headway.dev/job", "--engine", f"w={engine.url}"]
    there, manager, deadline = {}, None, Deadline(2500 / SCALE + 60)
    gate = data / "gate"
    gate.mkdir(parents=True)
    for folder in (data, gate):
        folder.chmod(0o755)  # the image has a user of its own
    began = monotonic()
    while len(there) < len(JOBS) or not all(w.ended for w in there.values()):
        now = monotonic() - began
        assert not deadline.passed(), "it never ended"
        for name, (model, at, work, rate, way) in JOBS.items():
            if name not in there and now >= at / SCALE:
                host = {**way, "Binds": [f"{gate}:/gate"]}
                told = command(model, work, rate)
                made = engine.create(told, name=name, labels={"headway.dev/job": name}, **host)
                there[name] = Watched(made, now)
        if manager is None:
            env = {**os.environ, "HEADWAY_DATA": str(data)}
            manager = Popen(
                [executable, "-m", "headway", *words, "--policy", policy, "--json"],
                env=env, stdout=PIPE, stderr=PIPE, text=True,
            )  # fmt: skip
            wait_for(partial(_begun, manager, data))
            (gate / "open").touch()
            began = monotonic()
        for w in there.values():
            if not w.ended:
                look(engine, w, now)
        sleep(0.1)
    done = end_of(manager)
    assert done.returncode == 0, done.stderr
    for w in there.values():
        w.last = engine.inspect(w.id)
        engine.client.delete(f"/containers/{w.id}", force=True)
    found = json.loads(done.stdout)[0]
    assert [j["outcome"] for j in found["per_job"]] == ["succeeded"] * 3
    return there, found


def _begun(manager, data):
    path = data / "runs" / "latest" / "journal.jsonl"
    return manager.poll() is not None or (path.exists() and path.stat().st_size > 0)


def decided(data, name):
    """The ceilings that were decided for it and carried out."""
    lines = journal.read(data / "runs" / "latest" / "journal.jsonl")
    return [
        o.decision.limit
        for line in lines
        for o in line["outcomes"]
        if isinstance(o.decision, SetShare)
        and isinstance(o, Applied | Started)
        and o.decision.replica == f"{name}/main-0"
    ]


@pytest.fixture(scope="module")
def with_ceilings(one_cpu_engine, tmp_path_factory):
    """The experiment under FlowCon, once for both tests: it takes a quarter of a minute."""
    data = tmp_path_factory.mktemp("flowcon")
    return data, *experiment(one_cpu_engine, data, FLOWCON)


@pytest.mark.xdist_group("flowcon")
def test_the_limits_of_algorithm_1_are_seen_in_the_engines_own_account(with_ceilings):
    data, seen, found = with_ceilings
    limited = 0
    for name, w in seen.items():
        wanted = [limit for limit, _ in groupby([None, *decided(data, name)])]
        got = iter(wanted)
        in_order = all(any(_same(x, y) for y in got) for x in w.ceilings())
        assert in_order, (name, w.ceilings(), wanted)
        assert (w.last["Id"], w.last["RestartCount"]) == (w.id, 0)
        way, host = JOBS[name][4], w.last["HostConfig"]
        assert bool(host["CpuQuota"]) == ("CpuQuota" in way)
        if "CpuPeriod" in way:
            assert host["CpuPeriod"] == way["CpuPeriod"]
        for limit, cores in w.stretches():
            if limit is not None:
                assert cores <= 1.1 * limit + 0.03, (name, limit, cores)
                limited += 1
    assert limited >= 3, "too few ceilings were held long enough to be measured"
    assert any(x is not None for x in seen["vae"].ceilings())
    assert sum(w.used[-1][1].throttled for w in seen.values()) > 0
    _note(data, seen, found)


@pytest.mark.xdist_group("flowcon")
@pytest.mark.long
def test_makespan_with_and_without_the_ceilings(tmp_path, one_cpu_engine, with_ceilings):
    """In turns, because other processes use the machine too. CPU time says what they cost, and two
    runs without ceilings how much equal runs differ.
    """
    arms = {"flowcon": FLOWCON, "fair": "fair"}
    pairs = []
    for i in range(PAIRS):
        pair = {}
        for name, policy in arms.items() if i % 2 == 0 else reversed(arms.items()):
            if i == 0 and name == "flowcon":
                _, seen, _ = with_ceilings
            else:
                seen, _ = experiment(one_cpu_engine, tmp_path / f"{i}-{name}", policy)
            pair[name] = _times(seen)
        pairs.append(pair)
    alike = [
        _times(experiment(one_cpu_engine, tmp_path / f"alike-{i}", "fair")[0])
        for i in range(2 if PAIRS > 1 else 0)
    ]
    times = [key for key in pairs[0]["fair"] if key.endswith("_s")]
    changes = {k: [round(p["flowcon"][k] / p["fair"][k] - 1, 4) for p in pairs] for k in times}
    load = float(Path("/proc/loadavg").read_text().split()[2])
    _figures(
        {"scale": SCALE, "policy": FLOWCON, "load": load, "pairs": pairs, "alike": alike,
         "changes": changes}
    )  # fmt: skip
    assert all(-0.5 < change < 1 for change in changes["cpu_s"]), changes
    limited = {arm: sum(pair[arm]["limited"] for pair in pairs) for arm in arms}
    assert limited["flowcon"] > limited["fair"], limited


def _times(seen):
    return {
        "makespan_s": round(max(w.ended for w in seen.values()), 2),
        "cpu_s": round(sum(w.used[-1][1].cpu for w in seen.values()), 2),
        "limited": sum(x is not None for w in seen.values() for x in w.ceilings()),
        **{f"{job}_s": round(w.ended - w.began, 2) for job, w in seen.items()},
    }


def _same(x, y):
    return x == y or (None not in (x, y) and x == pytest.approx(y, abs=0.001))


def _note(data, seen, found):
    per_job = {
        name: {
            "created_with": next(k for k, way in WAYS.items() if way == JOBS[name][4]),
            "completion_s": round(w.ended - w.began, 2),
            "ceilings_seen": [None if x is None else round(x, 3) for x in w.ceilings()],
            "ceilings_decided": [None if x is None else round(x, 3) for x in decided(data, name)],
            "held": [
                [limit and round(limit, 3), round(cores, 3)] for limit, cores in w.stretches()
            ],
            "throttled": f"{w.used[-1][1].throttled} of {w.used[-1][1].periods} periods",
            "restarts": w.last["RestartCount"],
        }
        for name, w in seen.items()
    }
    _figures({"scale": SCALE, "policy": found["policy"], "jobs": per_job})


def _figures(figures):
    """For `scripts/evidence`."""
    if path := os.environ.get("HEADWAY_FIGURES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")


def test_a_released_container_has_its_former_limits(tmp_path, engines):
    engine = engines[0]
    spin = "while True: pass"
    made = {
        name: engine.create(spin, labels={"headway.test": str(tmp_path)}, **way)
        for name, way in WAYS.items()
    }
    before = {name: share(engine, number) for name, number in made.items()}
    words = ["adopt", "--label", f"headway.test={tmp_path}", "--engine", engine.url]
    manager = Popen(
        [executable, "-m", "headway", *words, "--policy", "las:interval=0.5,quantum=0.5"],
        env={**os.environ, "HEADWAY_DATA": str(tmp_path)}, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    try:
        wait_for(lambda: any(share(engine, n) != before[k] for k, n in made.items()))
        manager.send_signal(2)
        assert end_of(manager).returncode == 130
        assert {name: share(engine, number) for name, number in made.items()} == before
        assert all(engine.inspect(n)["State"]["Running"] for n in made.values())
    finally:
        manager.kill()
        for number in made.values():
            engine.client.delete(f"/containers/{number}", force=True)


def share(engine, number):
    return cpu_limits.share(engine.inspect(number)["HostConfig"], 2.0)
