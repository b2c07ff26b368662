"""The node agent: logs as the kubelet keeps them, cgroups, and what waits to be acknowledged."""

import gzip
from threading import Event, Thread

import pytest
from patience import wait_for

from headway.backend.kubernetes.agent import agent as agent_module
from headway.backend.kubernetes.agent import pod_cgroups
from headway.backend.kubernetes.agent.agent import (
    MOST_SENT,
    MOST_WAITING,
    Agent,
    HttpsClient,
    halved,
)
from headway.backend.kubernetes.agent.cri_log import CriDecoder, CriLog, nanoseconds
from headway.backend.kubernetes.reports.server import Refusal
from headway.backend.kubernetes.reports.token_review import Client
from reporting import HOST, resolved, served

UID = "0d1b3a52-7a3f-4a55-9d0e-3b7c11111111"


def cri(i, text, stream="stdout", tag="F"):
    """A line of a log; runtimes omit the trailing zeros of a time."""
    fraction = f"{i % 10**6:06d}".rstrip("0")
    time = f"2026-01-02T03:{i // 10**6:02d}:05" + (f".{fraction}" if fraction else "") + "Z"
    return f"{time} {stream} {tag} {text}\n".encode()


def texts(lines):
    return [line.text for line in lines]


def test_parts_of_a_line_are_joined_although_streams_are_interleaved():
    decoder = CriDecoder()
    data = cri(1, "loss ", tag="P") + cri(2, "warning", "stderr") + cri(3, "0.5")
    assert texts(decoder.feed(data[:30])) == []
    assert texts(decoder.feed(data[30:])) == [b"warning\n", b"loss 0.5\n"]
    bar = cri(4, "1/9 loss 3\r2/9 lo", "stderr", "P") + cri(5, "ss 2\r", "stderr", "P")
    assert texts(decoder.feed(bar)) == [b"1/9 loss 3\r", b"2/9 loss 2\r"]
    assert texts(decoder.feed(b"garbage\n\n" + cri(6, "x"))) == [b"x\n"]


def test_a_line_without_an_end_is_not_kept_whole():
    decoder = CriDecoder()
    for i in range(200):
        assert texts(decoder.feed(cri(i, "x" * 16_000, tag="P"))) == []
    assert len(*texts(decoder.feed(cri(201, "end")))) < 40_000


def test_times_of_lines_are_compared_as_numbers():
    assert nanoseconds(b"2026-01-02T03:04:05.1Z") < nanoseconds(b"2026-01-02T03:04:05.12Z")
    assert nanoseconds(b"2026-01-02T03:04:05Z") == nanoseconds(b"2026-01-02T05:04:05.0+02:00")
    assert nanoseconds(b"nonsense") == nanoseconds(b"2026-99-02T03:04:05Z") == 0


class Container:
    """Writes a log as a runtime does, and rotates it as the kubelet does."""

    def __init__(self, folder):
        self.folder, self.count, self.rotations = folder, 0, 0
        folder.mkdir(parents=True)
        self.file = (folder / "0.log").open("ab", 0)

    def write(self, lines):
        for _ in range(lines):
            self.count += 1
            self.file.write(cri(self.count, f"step {self.count}/9999 loss {1 / self.count:.4f}"))

    def rename(self):
        self.rotations += 1
        (self.folder / "0.log").rename(self.folder / f"0.log.20260102-0304{self.rotations:02d}")

    def reopen(self):
        self.file.close()
        self.file = (self.folder / "0.log").open("ab", 0)

    def compress(self):
        """All but the newest rotated one; of many, the oldest are deleted."""
        for old in sorted(self.folder.glob("0.log.*[0-9]"))[:-1]:
            (self.folder / f"{old.name}.gz").write_bytes(gzip.compress(old.read_bytes()))
            old.unlink()


@pytest.fixture
def container(tmp_path):
    made = Container(tmp_path / f"default_x-worker-0-1_{UID}" / "training")
    yield made
    made.file.close()


def test_no_line_is_lost_or_read_twice_over_rotations(container):
    log, found = CriLog(container.folder), []
    for i in range(12):
        container.write(50)
        if i % 2:
            container.rename()
            container.write(5)  # the runtime does not know yet
            found += texts(log.read(10**6)) if i % 3 else []
            container.reopen()
        if i % 4 == 3:
            container.compress()
        found += texts(log.read(10**6)) if i % 3 == 0 else []
    found += texts(log.read(10**6))
    assert [int(t.split()[1].split(b"/")[0]) for t in found] == list(range(1, container.count + 1))
    log.close()


def test_a_read_is_bounded_and_continues(container):
    container.write(30_000)
    log = CriLog(container.folder)
    first = len(list(log.read(1)))
    assert 0 < first < 30_000
    assert first + len(list(log.read(10**9))) == 30_000
    log.close()


def test_a_file_of_another_format_is_not_read_again_and_again(tmp_path):
    (tmp_path / "0.log").write_text("a b F d\n" * 3)
    log = CriLog(tmp_path)
    assert len(list(log.read(10**6))) == 3
    (tmp_path / "0.log").rename(tmp_path / "0.log.1")
    (tmp_path / "0.log").write_text("e f F h\n")
    assert list(log.read(10**6)) == []
    log.close()


@pytest.fixture
def agents(tmp_path):
    made = []

    def start(operator):
        made.append(Agent(operator, tmp_path, str(tmp_path)))
        return made[-1]

    yield start
    for each in made:
        each.close()


class Operator:
    """Acknowledges, or not; lists these pods."""

    def __init__(self, **pods):
        self.pods, self.up, self.heard = pods or {UID: {"metric": "loss"}}, True, []

    def __call__(self, body):
        if not self.up:
            raise ConnectionRefusedError("away")
        self.heard.append(body["pods"])
        return {"pods": self.pods}

    def entries(self, uid=UID):
        return [tuple(e) for pods in self.heard for e in pods.get(uid, {}).get("log", ())]


def test_what_is_not_acknowledged_is_sent_again(container, agents, caplog):
    operator = Operator()
    agent = agents(operator)
    agent.cycle()  # it learns of the pod
    container.write(3)
    agent.cycle()
    assert [e[0] for e in operator.entries()] == [1, 2, 3]
    operator.up = False
    for _ in range(3):
        container.write(2)
        agent.cycle()
    assert caplog.text.count("does not acknowledge") == 1
    operator.up = True
    container.write(1)
    agent.cycle()
    agent.cycle()
    assert [e[0] for e in operator.entries()] == list(range(1, 11))
    assert operator.entries()[0] == (1.0, 1.0, 1.0, 1, 9999.0)
    assert operator.heard[-1][UID]["line"].startswith("step 1/9999")


def test_an_agent_that_is_restarted_continues_where_the_last_one_was_acknowledged(
    container, agents
):
    operator = Operator()
    agent = agents(operator)
    agent.cycle()
    container.write(5)
    agent.cycle()
    operator.pods[UID]["position"] = operator.heard[-1][UID]["position"]
    container.write(4)
    again = agents(operator)
    again.cycle()
    again.cycle()
    assert [e[0] for e in operator.entries()] == list(range(1, 10))


def test_a_long_silence_of_the_operator_costs_detail_but_no_step(container, agents):
    operator = Operator()
    agent = agents(operator)
    agent.cycle()
    operator.up = False
    container.write(3 * MOST_WAITING)
    for _ in range(3):
        agent.cycle()
    assert len(agent.pods[UID].entries) <= MOST_WAITING
    operator.up = True
    agent.cycle()
    assert sum(e[3] for e in operator.entries()) == 3 * MOST_WAITING
    assert operator.entries()[-1][0] == 3 * MOST_WAITING


def test_a_request_is_bounded(agents, tmp_path):
    uids = [f"{i}-{UID[2:]}" for i in range(8)]
    made = [Container(tmp_path / f"default_x_{uid}" / "training") for uid in uids]
    operator = Operator(**{uid: {} for uid in uids})
    agent = agents(operator)
    agent.cycle()
    for each in made:
        each.write(MOST_WAITING)
    agent.cycle()
    assert sum(len(p["log"]) for p in operator.heard[-1].values()) == MOST_SENT
    agent.cycle()
    assert all(len(operator.entries(uid)) == MOST_WAITING for uid in uids)
    for each in made:
        each.file.close()


def test_neighbours_are_joined_by_their_mean():
    joined = halved([(1, 4.0, 5.0, 1, None), (2, 1.0, 1.0, 2, 9), (3, None, None, 0, None)])
    assert joined == [(2, 2.0, 5.0, 3, 9), (3, None, None, 0, None)]
    assert halved([(1, None, None, 0, 7), (None, None, None, 0, None)]) == [(1, None, None, 0, 7)]


def test_a_pod_that_reports_by_itself_is_not_read_and_one_that_is_gone_is_forgotten(
    container, agents
):
    operator = Operator()
    agent = agents(operator)
    agent.cycle()
    operator.pods[UID]["sdk"] = True
    agent.cycle()
    container.write(3)
    agent.cycle()
    assert operator.entries() == []
    operator.pods = {"../../etc": {}}
    agent.cycle()
    assert agent.pods == {}


@pytest.mark.parametrize("pattern", ["(", r"loss (\S+)"])
def test_a_value_that_is_no_number_and_a_pattern_that_is_invalid_are_trouble(
    container, agents, pattern
):
    operator = Operator(**{UID: {"metric": "loss", "pattern": pattern}})
    agent = agents(operator)
    agent.cycle()
    container.file.write(cri(1, "loss nan"))
    agent.cycle()
    said = operator.heard[-1][UID]["trouble"]
    assert said == ("reported the value nan") or (pattern == "(" and "reports.pattern" in said)


def test_an_agent_runs_until_it_is_stopped(container, agents):
    operator, stop = Operator(), Event()
    agent = agents(operator)
    thread = Thread(target=agent.run, args=(stop,))
    container.write(1)
    thread.start()
    wait_for(operator.entries)
    stop.set()
    thread.join()


class CountedEvent(Event):
    waits = 0

    def wait(self, timeout=None):
        self.waits += 1
        return super().wait(timeout)


def test_an_agent_without_pods_asks_rarely_until_the_kubelet_creates_a_folder(
    agents, tmp_path, monkeypatch
):
    monkeypatch.setattr(agent_module, "EVERY", 0.02)
    monkeypatch.setattr(agent_module, "IDLE", 3600.0)
    operator, stop = Operator(), CountedEvent()
    operator.pods = {}
    thread = Thread(target=agents(operator).run, args=(stop,))
    thread.start()
    try:
        wait_for(lambda: stop.waits > 20)
        assert len(operator.heard) == 1
        (tmp_path / "default_x_uid").mkdir()
        wait_for(lambda: len(operator.heard) == 2)
        monkeypatch.setattr(agent_module, "IDLE", 0.1)
        wait_for(lambda: len(operator.heard) > 3)
    finally:
        stop.set()
        thread.join()


def test_an_agent_without_pods_holds_no_connection(tmp_path, monkeypatch):
    pods = {}
    known = {"ann": Client("headway-agent:headway-agent", "uid", "a")}
    server = served(tmp_path, known.get, {"/v1/node": lambda *_: {"pods": pods}})
    with server as there, resolved(monkeypatch, tmp_path, "ann"):
        url = f"https://{HOST}:{there.server_port}"
        send = HttpsClient(url, tmp_path / "token", tmp_path / "ca.crt")
        send({"pods": {}})
        wait_for(lambda: not there._open)
        pods[UID] = {}
        send({"pods": {}})
        assert len(there._open) == 1
        send.close()


def test_an_agent_opens_its_connection_again_when_it_breaks(tmp_path, monkeypatch):
    told = []

    def node(client, body):
        told.append((client.node, body))
        if len(told) == 2:
            raise Refusal(503, "busy")
        return {"pods": {}}

    known = {"ann": Client("headway-agent:headway-agent", "uid", "a")}
    server = served(tmp_path, known.get, {"/v1/node": node})
    with server as there, resolved(monkeypatch, tmp_path, "ann"):
        url = f"https://{HOST}:{there.server_port}"
        send = HttpsClient(url, tmp_path / "token", tmp_path / "ca.crt")
        assert send({"pods": {}}) == {"pods": {}}
        with pytest.raises(OSError, match="503"):
            send({"pods": {}})
        assert send({"pods": {}}) == {"pods": {}}
        (tmp_path / "token").write_text("bob")
        with pytest.raises(OSError, match="401"):
            send({"pods": {}})
        send.close()
    assert [node for node, _ in told] == ["a"] * 3


# -- cgroups ---------------------------------------------------------------------------------------

LAYOUTS = [
    f"kubepods/burstable/pod{UID}",
    f"kubepods/pod{UID}",
    f"cluster/node-1/kubepods/besteffort/pod{UID}",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
    f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice",
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_cgroup_of_a_pod_is_found_and_read(tmp_path, layout):
    one, two = tmp_path / "one", tmp_path / "two"
    for controller in ("cpu", "cpuacct", "memory"):
        (one / controller / layout).mkdir(parents=True)
    (one / "cpu" / layout / "cpu.stat").write_text("nr_periods 10\nnr_throttled 4\n")
    (one / "cpuacct" / layout / "cpuacct.usage").write_text("2500000000\n")
    (one / "memory" / layout / "memory.stat").write_text("rss 1\ntotal_rss 4096\n")
    (two / layout).mkdir(parents=True)
    (two / "cgroup.controllers").write_text("cpu memory\n")
    stat = "usage_usec 2500000\nnr_periods 10\nnr_throttled 4\n"
    (two / layout / "cpu.stat").write_text(stat)
    (two / layout / "memory.stat").write_text("anon 4096\n")
    for root in (one, two):
        group = pod_cgroups.find(str(root), UID)
        found = group.read()
        assert (found.cpu, found.memory, found.periods, found.throttled) == (2.5, 4096, 10, 4)
        group.close()
        assert pod_cgroups.find(str(root), "another") is None


def test_a_cgroup_that_has_gone_is_not_looked_for_for_ever(agents, tmp_path):
    folder = tmp_path / LAYOUTS[0]
    folder.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").touch()
    (folder / "cpu.stat").write_text("usage_usec 1000000\n")
    operator = Operator()
    agent = agents(operator)
    agent.cycle()
    agent.cycle()
    assert operator.heard[-1][UID]["usage"]["cpu"] == 1.0
    agent.pods[UID].cgroup.close()
    (folder / "cpu.stat").unlink()
    for _ in range(3):
        agent.cycle()
        assert "usage" not in operator.heard[-1][UID]
