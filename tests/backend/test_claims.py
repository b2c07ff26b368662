"""Two runs on one machine do not use the same ports or CPUs, and know of promised memory."""

import socket
import subprocess
import sys

import pytest

from headway.backend.claims import BLOCK, FIRST, LAST, Claims, Ports
from headway.backend.cpu_partition import cut
from headway.backend.docker.container_spec import container_name
from headway.backend.promised_memory import PromisedMemory
from headway.core.model.units import ReplicaId
from making import GIB, node


@pytest.fixture
def claims():
    made = [Claims(), Claims()]
    yield made
    for each in made:
        each.close()


def test_a_claim_belongs_to_one_until_it_ends(claims, tmp_path):
    one, other = claims
    name = f"test-{tmp_path.name}"
    assert one.take(name)
    assert one.take(name)
    assert not other.take(name)
    one.close()
    assert other.take(name)


def test_no_two_jobs_share_a_port_in_one_run_or_in_two(claims, tmp_path):
    """By their names alone, `job-5` and `job-15` did, and so did equal names of two users."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    names, taken = [f"job-{i}" for i in range(40)], set()
    for run, held in zip("ab", claims, strict=True):
        ports = Ports(tmp_path / run, held)
        for name in names:
            first = ports.of(name, 4, names)
            block = set(range(first, first + 4))
            assert not block & taken
            taken |= block
    assert len(taken) == 2 * 40 * 4


def test_a_port_that_a_program_uses_is_not_given(claims, tmp_path):
    (tmp_path / "run").mkdir()
    first = Ports(tmp_path / "run", claims[0]).of("x", 4, ())
    claims[0].close()
    (tmp_path / "run" / "ports.json").unlink()
    with socket.socket() as used:
        used.bind(("127.0.0.1", first + 2))
        used.listen()
        assert Ports(tmp_path / "run", claims[0]).of("x", 4, ()) != first


def test_a_user_that_claims_every_port_and_cpu_denies_them_to_no_other_user(claims, tmp_path):
    theirs, ours = claims
    for first in range(FIRST, LAST, BLOCK):
        theirs.take(f"port-{first}")
    (tmp_path / "run").mkdir()
    ports = Ports(tmp_path / "run", ours)
    assert FIRST <= ports.of("x", 4, ()) < LAST
    assert abs(ports.of("y", 4, {"x"}) - ports.of("x", 4, {"x"})) >= BLOCK
    (cut_,) = cut((node("a", cpu=1.0),), [0, 1], taken=[0, 1])
    assert cut_.cpus


def test_a_job_keeps_its_ports_while_it_runs_also_after_a_crash(claims, tmp_path):
    (tmp_path / "run").mkdir()
    first = Ports(tmp_path / "run", claims[0]).of("x", BLOCK + 1, ())
    claims[0].close()  # Headway dies
    again = Ports(tmp_path / "run", claims[1])
    assert again.of("x", 5, {"x"}) == first
    other = again.of("y", 5, {"x"})
    assert not first - BLOCK < other < first + 2 * BLOCK
    again.of("z", 5, {"y"})  # x has ended
    assert claims[0].take(f"port-{first}")


def test_names_of_containers_differ_if_those_of_replicas_do():
    names = [ReplicaId("train/big-worker-0"), ReplicaId("train-big/worker-0")]
    assert len({container_name("run", name, 1) for name in names}) == 2


def test_nodes_are_laid_over_cpus_that_no_other_run_has_taken():
    one = (node("a", cpu=1.0),)
    assert cut(one, [0, 1, 2])[0].cpus == (2,)
    assert cut(one, [0, 1, 2], taken=[2])[0].cpus == (1,)
    assert cut(one, [0, 1], taken=[0, 1])[0].cpus == (1,), "if all are taken, they are shared"


OTHER = """
import sys, time
from pathlib import Path
from headway.backend.promised_memory import PromisedMemory
PromisedMemory("other", Path(sys.argv[1])).publish(float(sys.argv[2]))
print("ready", flush=True)
time.sleep(600)
"""


def test_memory_that_another_run_has_promised_is_known_until_its_process_ends(tmp_path):
    folder = tmp_path / "registry"
    ours = PromisedMemory("ours", folder)
    assert ours.of_others() == 0
    ours.publish(5 * GIB)
    command = [sys.executable, "-c", OTHER, str(folder), str(GIB)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        assert ours.of_others() == GIB
        (folder / "0-garbage.json").write_text("{")
        (folder / "0-link.json").symlink_to("/etc/passwd")
        assert ours.of_others() == GIB
        other.kill()
        other.wait()
    assert ours.of_others() == 0
    ours.close()
    assert not (folder / "0-ours.json").exists()
