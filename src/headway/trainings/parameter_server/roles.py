"""What this process is in its job: the parameter server or a worker, by `TF_CONFIG`."""

import errno
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Thread

from headway.errors import ConfigError
from headway.sdk import Run
from headway.trainings.parameter_server.server import FAILED, Server
from headway.trainings.parameter_server.shared_model import Recipe
from headway.trainings.parameter_server.worker import Address, Worker
from headway.trainings.stop import Stop
from headway.trainings.train import print_line

ANY_PORT: Address = ("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class Role:
    task: str
    """`ps`, or `worker`; "": both, in one process."""
    index: int = 0
    workers: int = 1
    server: Address = ANY_PORT


def role_of(environment: Mapping[str, str]) -> Role:
    """Read the role from `TF_CONFIG`, as TensorFlow does."""
    text = environment.get("TF_CONFIG")
    if not text:
        return Role("")
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        host, _, port = cluster["ps"][0].rpartition(":")
        role = Role(task["type"], int(task["index"]), len(cluster["worker"]), (host, int(port)))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ConfigError(
            f"TF_CONFIG does not describe a parameter server and workers: {error!r}",
            where=text[:200],
            hint="use the tasks ps and worker",
        ) from None
    if len(cluster["ps"]) > 1 or role.task not in ("ps", "worker"):
        raise ConfigError(
            "this training has one parameter server and workers",
            where=text[:200],
            hint="use the tasks ps (replicas: 1) and worker",
        )
    return role


def take_part(
    role: Role,
    recipe: Recipe,
    run: Run,
    stop: Stop,
    *,
    demand: float,
    save_every: int,
    timeout: float,
) -> int:
    """Do what the role says; return the exit code."""
    address = role.server
    if role.task != "worker":
        try:
            listener = listen(address)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            print_line(f"error: cannot listen on {address[0]}:{address[1]}: {why}")
            return FAILED
        with listener:
            server = Server(recipe, role.workers, timeout)
            if role.task == "ps":
                return server.serve(listener, stop)
            thread = Thread(target=server.serve, args=(listener, stop))
            thread.start()
            only = Worker(recipe, 0, listener.getsockname(), run, stop, timeout)
            code = only.train(demand=demand, save_every=save_every)
            stop.request()
            thread.join()
            return code
    worker = Worker(recipe, role.index, address, run, stop, timeout)
    return worker.train(demand=demand, save_every=save_every)


def listen(address: Address) -> socket.socket:
    """Listen where the workers look for the server, and nowhere else if that is possible."""
    try:
        return socket.create_server(address)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL and not isinstance(error, socket.gaierror):
            raise
        return socket.create_server(("", address[1]))  # its name stands for another interface
