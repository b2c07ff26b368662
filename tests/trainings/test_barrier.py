"""Workers of TensorFlow wait for each other before TensorFlow does."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

from headway.trainings.barrier import Barrier
from headway.trainings.stop import Stop


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def worker(index, ports):
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    task = {"type": "worker", "index": index}
    return Barrier({"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})


def test_all_workers_meet_and_leave_their_ports():
    ports = free_ports(3)
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda i: worker(i, ports).wait(Stop(), 30), range(3))
        assert list(found) == ["", "", ""]
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_workers_that_do_not_join_are_named():
    ports = free_ports(3)
    assert worker(0, ports).wait(Stop(), 0.3) == "worker-1, worker-2 did not join within 0.3 s"


def test_a_port_in_use_is_an_error_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        why = worker(0, [port, *free_ports(1)]).wait(Stop(), 30)
    assert why == f"cannot listen on 127.0.0.1:{port}: Address already in use"


def test_a_worker_alone_and_one_without_tf_config_do_not_wait():
    assert worker(0, free_ports(1)).wait(Stop(), 0) == ""
    assert Barrier({}).wait(Stop(), 0) == ""


def test_a_request_to_stop_ends_the_wait():
    stop = Stop()
    stop.request()
    assert worker(0, free_ports(2)).wait(stop, 30) == "stopped"
