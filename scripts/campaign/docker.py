"""Docker as a platform of trials: a private engine, and what is left on it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from campaign.target import Target
from headway.backend.docker.client import Client
from headway.errors import HeadwayError


@contextmanager
def docker() -> Iterator[Target]:
    """Two nodes on one engine of our own, with the image of the tests."""
    import engines  # noqa: PLC0415 - tests/real; needs a Docker engine
    import image  # noqa: PLC0415

    why = engines.missing()
    if why:
        raise SystemExit(why)
    engine = engines.PrivateEngine("chaos")
    options = ("--backend", "docker", "--image", image.NAME)
    nodes = tuple({"name": name, "engine": engine.url} for name in "ab")
    try:
        yield Target(
            "docker", {}, options, nodes, python="python3", ledger=False, engine=engine.url
        )
    finally:
        engine.close()


def containers(url: str, data: Path) -> list[str]:
    """Containers of the runs below a data folder."""
    runs = {p.name for p in (data / "runs").glob("*")}
    found = Client(url).get("/containers/json", all=True)
    return [c["Id"] for c in found if c["Labels"].get("headway.dev/run") in runs]


def remove(url: str, data: Path) -> None:
    with suppress(HeadwayError):
        for each in containers(url, data):
            Client(url).delete(f"/containers/{each}", force=True, v=True)
