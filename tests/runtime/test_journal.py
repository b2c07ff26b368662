"""A file whose last line is not ended tells which acts are in doubt."""

import subprocess
import sys

import pytest

from headway.core.cycle.validate import FINE, Verdict
from headway.core.model.decision import Applied, Failed, Plan, Refused, SetShare, Started, Suspend
from headway.core.model.job import Phase
from headway.core.model.report import Report, Usage
from headway.core.model.serialization import to_json
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId
from headway.errors import ConfigError
from headway.policy.registry import build
from headway.report.explain import explain_job
from headway.runtime.journal import (
    FORMAT,
    FileJournal,
    Journal,
    exists,
    intact,
    jobs_of,
    read,
    read_after,
    read_to_resume,
    repair,
)
from headway.runtime.last_reports import reported
from headway.runtime.loop import Loop
from headway.runtime.replay import replay, replay_journal
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.spec.workload import make_workload
from making import job, node, replica

SHARE = SetShare(replica=ReplicaId("x/main-0"), limit=0.5)
PLAN, VERDICT = Plan(decisions=(SHARE,)), Verdict(accepted=(SHARE,))


def begin(path):
    book = FileJournal(path)
    book.intend(Trigger.ARRIVED, Observation(at=1.0), PLAN, VERDICT, None)
    return book


def test_a_cycle_is_a_line(tmp_path):
    book = begin(tmp_path / "j")
    book.settle((Applied(decision=SHARE),))
    book.intend(Trigger.TICK, Observation(at=2.0), Plan(), FINE, None)
    book.settle(())
    book.close()
    first, second = read(tmp_path / "j")
    assert first["outcomes"] == (Applied(decision=SHARE),)
    assert (first["trigger"], first["plan"], first["at_s"]) == (Trigger.ARRIVED, PLAN, 1.0)
    assert (second["cycle"], second["outcomes"]) == (2, ())


def test_what_was_intended_is_durable_before_it_is_done(tmp_path):
    begin(tmp_path / "j").close()  # and then we die
    (line,) = read(tmp_path / "j")
    assert line["plan"] == PLAN
    assert "outcomes" not in line


def test_a_torn_line_shows_whether_acting_had_begun(tmp_path):
    path = tmp_path / "j"
    book = begin(path)
    intended = path.stat().st_size
    book.settle((Applied(decision=SHARE),))
    book.close()
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        lines = list(read(path))
        if length < intended:
            assert lines == [], "nothing was done before the plan was on disk"
        else:
            assert [line["plan"] for line in lines] == [PLAN]
            assert ("outcomes" in lines[0]) == (length >= len(whole) - 2)


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "j"
    path.write_text('{"format":2,"cycle":1\n{}\n')
    with pytest.raises(ConfigError) as caught:
        list(read(path))
    assert caught.value.where == f"{path}:1"


def test_the_memory_is_written_every_ten_minutes(tmp_path):
    book = FileJournal(tmp_path / "j", durable=False)
    for i in range(101):
        book.intend(Trigger.TICK, Observation(at=i * 30.0), Plan(), FINE, {"i": i})
        book.settle(())
    book.close()
    lines = list(read(tmp_path / "j"))
    assert [line["cycle"] for line in lines if "memory" in line] == [1, 21, 41, 61, 81, 101]
    assert lines[99]["digest"]


def test_a_journal_that_grows_too_long_keeps_its_last_part_and_the_one_before(tmp_path):
    path = tmp_path / "journal.jsonl"
    book = FileJournal(path, policy="@fair", most=2000)
    for i in range(100):
        book.intend(Trigger.TICK, Observation(at=i * 1.0), Plan(), FINE, {"i": i})
        book.settle(())
    book.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["journal.1.jsonl", "journal.jsonl"]
    assert all(p.stat().st_size < 3000 for p in tmp_path.iterdir())
    lines = list(read(path))
    first = lines[0]["cycle"]
    assert first > 1
    assert [line["cycle"] for line in lines] == list(range(first, 101))
    begun = [line for line in lines if "memory" in line]
    assert [line["memory"]["i"] for line in begun] == [line["cycle"] - 1 for line in begun]
    assert (len(begun), begun[1]["policy"]) == (2, "@fair")


def test_outcomes_find_their_decisions_again_past_what_was_refused(tmp_path):
    other = SetShare(replica=ReplicaId("y/main-0"), limit=0.001)
    refused = Refused(decision=other, why="too low")
    book = FileJournal(tmp_path / "j")
    plan = Plan(decisions=(other, SHARE))
    verdict = Verdict(accepted=(SHARE,), refused=(refused,))
    book.intend(Trigger.TICK, Observation(at=1.0), plan, verdict, None)
    book.settle((Failed(decision=SHARE, why="no such cgroup"),))
    book.close()
    (line,) = read(tmp_path / "j")
    assert line["refused"] == (refused,)
    assert line["outcomes"] == (Failed(decision=SHARE, why="no such cgroup"),)


def test_of_two_equal_decisions_one_may_be_refused(tmp_path):
    """Somebody asked twice for the same, within one cycle."""
    pause = Suspend(job="x", reason="somebody asked for a pause")
    refused = Refused(decision=pause, why="it is leaving")
    book = FileJournal(tmp_path / "j")
    verdict = Verdict(accepted=(pause, SHARE), refused=(refused,))
    plan = Plan(decisions=(pause, SHARE, pause))
    book.intend(Trigger.ASKED, Observation(at=1.0), plan, verdict, None)
    book.settle((Started(decision=pause), Applied(decision=SHARE)))
    book.close()
    (line,) = read(tmp_path / "j")
    assert line["outcomes"] == (Started(decision=pause), Applied(decision=SHARE))


@pytest.mark.parametrize(
    ("head", "number"), [('{"cycle":1,"at_s":0', 1), ('{"cyc', 1), ('{"format":3,"cycle":1,"at', 3)]
)
def test_a_journal_of_another_format_is_refused_and_left_as_it_is(tmp_path, head, number):
    path = tmp_path / "j"
    path.write_text(head)
    for use in (repair, lambda path: list(read(path))):
        with pytest.raises(ConfigError) as caught:
            use(path)
        says = f"was written in format {number}; this Headway reads format {FORMAT}"
        assert says in caught.value.message
        assert str(path) in caught.value.message
        assert path.read_text() == head


def test_a_journal_says_its_format_once_a_file(tmp_path):
    path = tmp_path / "j"
    for _ in range(2):
        begin(path).close()
        repair(path)
    assert path.read_text().count('"format"') == 1
    assert path.read_text().startswith(f'{{"format":{FORMAT},"cycle":1,')


def test_the_cpu_that_a_process_has_reported_is_read_back():
    x, y = ReplicaId("x/main-0"), ReplicaId("y/main-0")

    def line(*reports, replicas=()):
        return {"seen": Observation(at=0.0, reports=reports, replicas=replicas)}

    def report(name, since, at, **more):
        more.setdefault("usage", Usage(cpu=0.5))
        return Report(replica=name, since=since, at=at, **more)

    lines = [line(report(x, 0.0, 10.0), report(y, 0.0, 10.0)), line(report(x, 10.0, 20.0))]
    assert reported(lines) == {x: (20.0, 10.0), y: (10.0, 5.0)}
    lines.append(line(report(x, 24.0, 30.0, restarted=True), report(y, 10.0, 11.0, usage=None)))
    assert reported(lines) == {x: (30.0, 3.0), y: (11.0, 5.0)}
    lines.append(line(replicas=(replica("x", phase=Phase.MIGRATING), replica("y"))))
    assert reported(lines) == {y: (11.0, 5.0)}


FULL = """
import resource, signal, sys
from pathlib import Path
from headway.core.cycle.validate import Verdict
from headway.core.model.decision import Applied, Plan, SetShare
from headway.core.model.snapshot import Observation, Trigger
from headway.errors import BackendError
from headway.runtime.journal import FileJournal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # from there on, the disk is full
share = SetShare(replica="x/main-0", limit=0.5, reason="x" * 300)
book = FileJournal(Path(sys.argv[1]))
for i in range(20):
    try:
        plan, verdict = Plan(decisions=(share,)), Verdict(accepted=(share,))
        book.intend(Trigger.TICK, Observation(at=i), plan, verdict, None)
        print("intended", flush=True)
        book.settle((Applied(decision=share),))
    except BackendError as error:
        print(error.message)
        break
"""


def test_what_a_full_disk_takes_only_in_part_is_no_success(tmp_path):
    """The kernel writes up to the limit and reports a short write; the next one fails."""
    path = tmp_path / "j"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("the journal cannot be written: File too large\n"), done.stderr
    intended = done.stdout.count("intended")
    assert path.stat().st_size == 1000
    repair(path)
    assert len(list(read(path))) == intended


def test_a_long_run_is_resumed_from_the_last_file_alone(tmp_path):
    path = tmp_path / "journal.jsonl"
    book = FileJournal(path, policy="@fair", most=20_000, durable=False)
    world = Tape(book)
    for i in range(1, 300):
        world.cycle(i)
    book.close()
    lines = read_to_resume(path)
    assert "state" in lines[0]
    assert 0 < len(lines) < 150
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) < 80_000
    again = Loop(world, build("@fair"), Journal())
    again.restore(lines)
    assert again.state.jobs == world.loop.state.jobs
    assert again.state.replicas == world.loop.state.replicas
    assert again.state.replicas["x/main-0"].history.windows
    assert reported(lines)[ReplicaId("x/main-0")] == (299.0, pytest.approx(299.0))
    everything = list(read(path))
    assert everything[0]["cycle"] > 1
    assert [j.id for j in everything[0]["seen"].jobs] == ["x"]
    assert replay(everything, build("@fair"))[1] == []


def test_a_run_is_resumed_from_the_last_state_in_its_file(tmp_path):
    path = tmp_path / "journal.jsonl"
    book = FileJournal(path, policy="@headway", most=2**24, durable=False)
    world = Tape(book, "@headway")
    for i in range(1, 1900):
        world.cycle(i)
    book.close()
    everything, lines = list(read(path)), read_to_resume(path)
    whole = [line["cycle"] for line in everything if "state" in line]
    assert 1 < whole[-1] == lines[0]["cycle"]
    assert (lines[-1]["cycle"], lines[0]["policy"]) == (1899, "@headway")
    assert sum(len(to_json(x["state"])) for x in everything if "state" in x) < 2**16
    assert path.stat().st_size < (len(whole) + 1) * 2**18 + 2**16
    again = Loop(world, build("@headway"), Journal())
    again.restore(lines)
    assert again.state.jobs == world.loop.state.jobs
    assert again.state.replicas == world.loop.state.replicas
    assert again.memory == world.loop.memory
    assert reported(lines) == reported(everything)
    assert [j.id for j in jobs_of(lines[0])] == ["x"]
    assert replay(everything, build("@headway"))[1] == []
    # Damage before that does not matter.
    with path.open("rb+") as file:
        file.seek(path.stat().st_size // 4)
        file.write(b"#")
    assert read_to_resume(path)[0]["cycle"] == whole[-1]


def test_the_first_line_of_a_process_that_resumes_a_run_contains_the_state(tmp_path):
    path = tmp_path / "journal.jsonl"
    world = Tape(FileJournal(path, policy="@fair", most=2**24, durable=False))
    for i in range(1, 50):
        world.cycle(i)
        if i % 10 == 0:
            world.loop.journal.close()
            lines = read_to_resume(path)
            book = FileJournal(path, cycle=i, most=2**24, durable=False, lines=lines)
            world.loop = Loop(world, build("@fair"), book)
            world.loop.restore(lines)
    world.loop.journal.close()
    assert [line["cycle"] for line in read(path) if "state" in line] == [11, 21, 31, 41]
    assert len(read_to_resume(path)) == 9


@pytest.mark.parametrize("begun", [None, b"", b'{"format":2,"cycle":77,"at_s":76'])
def test_a_crash_while_a_new_file_is_started_loses_nothing(tmp_path, begun):
    path = tmp_path / "journal.jsonl"
    book = FileJournal(path, policy="@fair", durable=False)
    world = Tape(book)
    for i in range(1, 77):
        world.cycle(i)
    book.close()
    path.rename(tmp_path / "journal.1.jsonl")
    if begun is not None:
        path.write_bytes(begun)
    assert exists(path)
    repair(path)
    lines = read_to_resume(path)
    assert lines[-1]["cycle"] == 76
    again = Loop(world, build("@fair"), FileJournal(path, cycle=76, lines=lines))
    again.restore(lines)
    world.loop, world.at = again, 77.0
    again.step(Trigger.TICK)
    again.journal.close()
    (line,) = read_to_resume(path)
    assert [j.id for j in line["state"].seen.jobs] == ["x"]
    assert reported([line])[ReplicaId("x/main-0")] == (77.0, pytest.approx(77.0))


class Tape:
    """A backend with one job, which reports every second."""

    def __init__(self, book, policy="@fair"):
        self.loop, self.at = Loop(self, build(policy), book), 0.0

    def cycle(self, at):
        self.at = float(at)
        self.loop.step(Trigger.TICK)

    def observe(self, look=()):
        del look
        first = self.at == 1.0
        said = Report(
            replica=ReplicaId("x/main-0"), since=self.at - 1, at=self.at, step=self.at,
            value=1 / self.at, usage=Usage(cpu=1.0),
        )  # fmt: skip
        return Observation(
            at=self.at,
            complete=first,
            nodes=(node("a"),) if first else (),
            jobs=(job("x"),) if first else (),
            replicas=(replica("x"),) if first else (),
            reports=(said,),
        )

    def act(self, decision):
        return Applied(decision=decision)


def test_what_came_after_a_size_is_read_alone(tmp_path):
    path = tmp_path / "j"
    book = begin(path)
    book.settle((Applied(decision=SHARE),))
    size = path.stat().st_size
    book.intend(Trigger.TICK, Observation(at=2.0), Plan(), FINE, None)
    book.settle(())
    book.close()
    assert [line["cycle"] for line in read_after(path, size)] == [2]
    assert [line["cycle"] for line in read_after(path, size + 3)] == []
    assert [line["cycle"] for line in read_after(path, 10**9)] == [1, 2], "a new file"


def test_only_the_end_of_a_long_journal_is_read_to_mend_it(tmp_path):
    path = tmp_path / "j"
    book = begin(path)
    book.settle((Applied(decision=SHARE),))
    book.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole.replace(b'"format":2,', b"") * 1000 + b'{"cycle":9,"at_s":1')
    size = path.stat().st_size
    repair(path)
    assert path.stat().st_size == size - len(b'{"cycle":9,"at_s":1')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"cycle":2', '"cycle":"two"'),
        ('"at_s":', '"at_s":null,"was":'),
        ('"trigger":', '"trigger":"thunder","was":'),
        ('"is":"Observation"', '"is":"Obsrvation"'),
        ('"is":"Observation"', '"is":"Plan"'),
        ('"is":"Plan"', '"is":"Usage"'),
        ('"outcomes":[', '"outcomes":[{"is":"Applied"},'),
        ('"seen":{', '"seen":{"nodes":[NaN],'),
        ('"seen":{', '"refused":[3],"seen":{'),
        ('"seen":{', '"seen":' + "[" * 100_000 + ',"was":{'),
    ],
)
def test_a_line_that_was_changed_is_refused_with_its_place(tmp_path, old, new):
    path = tmp_path / "journal.jsonl"
    world = to_scenario(make_workload(jobs=[{"name": "x", "profile": {"work": 5}}]))
    book = FileJournal(path, durable=False, policy="fair")
    simulate(world, build("fair"), journal=book)
    book.close()
    lines = path.read_text().splitlines(keepends=True)
    assert old in lines[1]
    path.write_text("".join([lines[0], lines[1].replace(old, new, 1), *lines[2:]]))
    uses = (lambda: list(read(path)), lambda: explain_job(path, "x"), lambda: replay_journal(path))
    for use in uses:
        with pytest.raises(ConfigError, match=r"damaged|invalid line") as caught:
            use()
        assert caught.value.where == f"{path}:2"


def test_a_journal_that_contradicts_itself_is_refused():
    says = "this journal is damaged: KeyError: 'b'"
    with pytest.raises(ConfigError, match=says) as caught, intact("j.jsonl"):
        raise KeyError("b")
    assert caught.value.exit_code == 2
