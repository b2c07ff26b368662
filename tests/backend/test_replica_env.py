"""The environment of a distributed job: right for its present size, wherever its replicas are."""

import json
import socket
from types import SimpleNamespace

from headway.backend.claims import Claims, Ports
from headway.backend.docker.addresses import addresses, hosts_of
from headway.backend.replica_env import port_env
from headway.controller.commands import Assignment, Start
from headway.core.model.job import Elastic, JobSpec, Task
from headway.core.model.units import ReplicaId

SPEC = JobSpec(tasks=(Task(name="ps"), Task(name="worker", most=4)))


def r(task, index):
    return ReplicaId.of("x", task, index)


def env(replica, gang, spec=SPEC, **more):
    return port_env(replica, 1, folder="/f", gang=gang, spec=spec, first=100, **more)


def config(found):
    return json.loads(found["TF_CONFIG"])


def test_each_replica_has_the_same_port_in_every_size_of_its_job():
    """By their rank, a worker that joined after another had left took the port of a third."""
    sizes = ([0, 1], [0, 1, 2, 3], [0, 3], [0, 2, 3])
    for present in sizes:
        gang = [r("ps", 0), *(r("worker", i) for i in present)]
        cluster = config(env(gang[-1], gang))["cluster"]
        assert cluster["ps"] == ["127.0.0.1:101"]
        assert cluster["worker"] == [f"127.0.0.1:{102 + i}" for i in present]


def test_the_index_in_tf_config_is_a_place_in_its_list():
    """After worker 1 was removed, worker 2 had the index 2 in a list of two."""
    gang = [r("ps", 0), r("worker", 0), r("worker", 2)]
    found = env(r("worker", 2), gang)
    assert config(found)["task"] == {"type": "worker", "index": 1}
    assert (found["RANK"], found["WORLD_SIZE"]) == ("2", "3")
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "100")


def test_a_job_that_shrinks_to_one_replica_is_still_distributed():
    """A script that reads RANK and WORLD_SIZE would fail without them."""
    spec = JobSpec(tasks=(Task(name="worker", most=3),))
    found = env(r("worker", 0), [r("worker", 0)], spec)
    assert (found["RANK"], found["WORLD_SIZE"]) == ("0", "1")


def test_a_job_of_one_replica_has_no_variables_of_distributed_jobs():
    found = env(r("main", 0), [r("main", 0)], JobSpec())
    assert not {"RANK", "TF_CONFIG", "MASTER_ADDR"} & set(found)


def test_replicas_on_other_nodes_are_reached_through_the_relay():
    gang = [r("ps", 0), r("worker", 0), r("worker", 2)]
    found = env(r("worker", 2), gang, relayed=gang[:2])
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "106")
    assert config(found)["cluster"] == {
        "ps": ["127.0.0.1:107"],
        "worker": ["127.0.0.1:108", "127.0.0.1:104"],
    }


def test_agents_of_torchrun_meet_where_rank_0_is():
    task = Task(name="worker", replicas=2, least=1, most=3, elastic=Elastic.TORCHRUN)
    gang, hosts = [r("worker", 0), r("worker", 2)], {r("worker", 0): "one", r("worker", 2): "two"}
    first, other = (env(x, gang, JobSpec(tasks=(task,)), hosts=hosts) for x in gang)
    assert (first["PET_NNODES"], first["PET_RDZV_BACKEND"], first["PET_RDZV_ID"]) == (
        "1:3", "c10d", "x",
    )  # fmt: skip
    assert first["PET_RDZV_ENDPOINT"] == other["PET_RDZV_ENDPOINT"] == "one:100"
    assert first["PET_RDZV_CONF"] == "is_host=true,last_call_timeout=5"
    assert other["PET_RDZV_CONF"] == "is_host=false,last_call_timeout=5"
    plain = env(r("worker", 0), [r("ps", 0), r("worker", 0)])
    assert not [name for name in plain if name.startswith("PET_")]


# -- ports -----------------------------------------------------------------------------------------


def test_a_job_that_starts_again_gets_other_ports_if_one_was_taken(tmp_path):
    claims = Claims()
    ports = Ports(tmp_path, claims)
    first = ports.of("x", 4, ())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        assert ports.of("x", 4, {"x"}) == first, "replicas of a job that runs keep theirs"
        again = ports.of("x", 4, ())
        assert not set(range(again, again + 4)) & set(range(first, first + 4))
    assert Ports(tmp_path, claims).of("x", 4, ()) == again
    claims.close()


# -- several engines -------------------------------------------------------------------------------


def engine(name, url):
    return SimpleNamespace(name=name, client=SimpleNamespace(url=url))


def test_engines_on_this_machine_use_the_loopback_device():
    urls = ("unix:///a.sock", "tcp://127.0.0.1:2375", "tcp://localhost:2376")
    found = addresses(engine(name, url) for name, url in zip("abc", urls, strict=True))
    assert set(found.values()) == {"127.0.0.1"}


def test_an_address_to_nowhere_leaves_the_loopback_device():
    found = addresses([engine("a", "unix:///a"), engine("b", "tcp://no.such.host.invalid:1")])
    assert found == {"a": "127.0.0.1", "b": "no.such.host.invalid"}


def test_replicas_on_other_machines_are_found_at_their_hosts():
    start = Start("x", (Assignment(r("worker", 1), 2, "b", 2),), ())
    running = [SimpleNamespace(replica=r("ps", 0), node="a")]
    hosts = hosts_of({"a": "10.0.0.1", "b": "10.0.0.2"}, start, running)
    gang = [r("ps", 0), r("worker", 1)]
    found = env(r("worker", 1), gang, hosts=hosts)
    assert found["MASTER_ADDR"] == "10.0.0.1"
    assert config(found)["cluster"] == {"ps": ["10.0.0.1:101"], "worker": ["10.0.0.2:103"]}
