"""Relays between virtual nodes, as real processes."""

import socket
import struct
from contextlib import suppress
from time import monotonic

import pytest
from patience import wait_for

from headway.backend import procfs
from headway.backend.claims import Claims, Ports
from headway.backend.local.relays import Relays
from headway.spec.link import LinkSpec

MIB = 2**20


@pytest.fixture
def port(tmp_path):
    claims = Claims()
    yield Ports(tmp_path, claims).of("x", 2, ())
    claims.close()


@pytest.fixture
def relays(tmp_path, port):
    made = []

    def make(**link):
        made.append(Relays(tmp_path, LinkSpec(**link)))
        made[-1].start("x", port, 1)
        return made[-1]

    yield make
    for each in made:
        each.stop("x")


def replica(port):
    return socket.create_server(("127.0.0.1", port))


def client(port):
    found = socket.create_connection(("127.0.0.1", port + 1))
    found.settimeout(60)
    return found


def receive(connection, count):
    data = b""
    while len(data) < count:
        data += connection.recv(count - len(data)) or pytest.fail("the connection was closed")
    return data


def is_alive(folder):
    return bool(procfs.marked(HEADWAY_DIR=str(folder)))


def test_each_direction_has_a_bandwidth_and_a_delay(port, relays):
    relays(bandwidth=MIB, delay_s=0.1)
    with replica(port) as server, client(port) as one:
        inside, _ = server.accept()
        began = monotonic()
        one.sendall(b"a")
        assert receive(inside, 1) == b"a"
        assert monotonic() - began >= 0.1, "the delay"
        data, began = bytes(range(256)) * 2048, monotonic()
        inside.sendall(data)
        assert receive(one, len(data)) == data
        assert monotonic() - began >= 0.6, "half a MiB at 1 MiB/s, and the delay"
        inside.close()


def test_connections_of_a_replica_share_its_bandwidth(port, relays):
    relays(bandwidth=MIB)
    with replica(port) as server, client(port) as one, client(port) as two:
        inside, began = [server.accept()[0] for _ in range(2)], monotonic()
        for each in (one, two):
            each.sendall(bytes(MIB // 4))
        for each in inside:
            receive(each, MIB // 4)
            each.close()
        assert monotonic() - began >= 0.5 - 0.125, "together half a MiB, less the first chunks"


def test_a_replica_may_start_later_than_those_that_connect_to_it(port, relays):
    relays(delay_s=0.001)
    with client(port) as one:
        one.sendall(b"early")
        with replica(port) as server:
            inside, _ = server.accept()
            assert receive(inside, 5) == b"early"
            inside.close()


def test_the_end_of_a_connection_is_forwarded(port, relays):
    relays(delay_s=0.001)
    with replica(port) as server, client(port) as one:
        inside, _ = server.accept()
        one.sendall(b"last")
        one.shutdown(socket.SHUT_WR)
        assert (receive(inside, 4), inside.recv(1)) == (b"last", b"")
        inside.sendall(b"answer")
        assert receive(one, 6) == b"answer", "the other direction is still open"
        inside.close()
        assert one.recv(1) == b""


def test_the_next_headway_finds_a_relay_and_ends_it(tmp_path, port, relays):
    relays(delay_s=0.001)
    found = Relays(tmp_path, LinkSpec(delay_s=0.001))
    found.start("x", port, 1)  # the port is in use: a second relay could not listen
    with replica(port) as server, client(port):
        server.accept()[0].close()
    found.keep({"x"})
    assert is_alive(tmp_path)
    found.keep(())
    wait_for(lambda: not is_alive(tmp_path))


def test_a_relay_that_was_killed_is_started_again(port, relays):
    made = relays(delay_s=0.001)
    made._children["x"].kill()
    made._children["x"].wait()
    made.start("x", port, 1)
    with replica(port) as server, client(port):
        server.accept()[0].close()


def test_a_replica_learns_that_the_other_side_was_killed(port, relays):
    """The kernel resets the connection of a process that is killed before it has read all."""
    relays(bandwidth=64 * MIB)
    with replica(port) as server, client(port) as one:
        inside, _ = server.accept()
        inside.settimeout(60)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
        with inside, suppress(ConnectionResetError):
            assert inside.recv(1) == b""


def test_a_sender_learns_that_the_replica_has_left_while_much_is_on_the_way(port, relays):
    relays(delay_s=1.0)
    with replica(port) as server, client(port) as one:
        inside, _ = server.accept()
        inside.close()
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            one.sendall(bytes(64 * MIB))


def test_a_relay_that_ends_with_open_connections_prints_nothing(port, relays, tmp_path, capfd):
    relays(delay_s=0.001)
    with replica(port) as server, client(port) as one, client(port) as two:
        inside = [server.accept()[0] for _ in range(2)]
        for each in (one, two):
            each.sendall(b"a" * MIB)
        assert receive(inside[0], 1)
        next((tmp_path / "relays").iterdir()).unlink()
        wait_for(lambda: not is_alive(tmp_path))
        for each in inside:
            each.close()
    assert capfd.readouterr().err == ""
