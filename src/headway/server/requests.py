"""Read requests: every part is checked, and every size is bounded."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

from headway.core.model.units import Seconds
from headway.errors import shown
from headway.server.problems import BadRequest
from headway.spec.generated_jobs import MAX_JOBS

MAX_BODY = 128 * 2**20
"""Bytes: more than the largest workload that `headway run` reads, with its generated jobs."""
MAX_BODY_OF_USER = 8 * 2**20
"""Bytes, in a server of all users of a machine."""
MAX_DEPTH = 32
MAX_REPLICAS = 10_000
MAX_PAGE = 500
PAGE = 100
BODY_TIME: Seconds = 10.0
"""Time within which a client must send the body of its request."""


async def read_json(request: Request, most: int = MAX_BODY) -> dict[str, Any]:
    """The body: an object of at most so many bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest("the body must be application/json", status=415)
    try:
        async with asyncio.timeout(BODY_TIME):
            body = await _body(request, most)
            # Decoded here, because json would take UTF-16 and halves of pairs too.
            found = json.loads(body.decode(), parse_constant=_refuse, parse_int=_whole)
    except TimeoutError:
        raise BadRequest(f"no complete body within {BODY_TIME:g} s", status=408) from None
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(found, dict):
        raise BadRequest("the body must be an object")
    _check_depth(found)
    if b"\\u" in body:  # only by an escape can a text be half of a pair
        _check_text(found)
    return found


async def _body(request: Request, most: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise BadRequest(
                    f"the body has more than {most >> 20} MiB: submit the jobs in parts",
                    status=413,
                )
    except ClientDisconnect:
        raise BadRequest("the client has left") from None
    return bytes(body)


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _whole(digits: str) -> float:
    """A number as other JSON parsers read it: an integer of more than 64 bits is a float."""
    return int(digits) if len(digits) <= 20 else float(digits)


def _check_depth(body: dict[str, Any]) -> None:
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [x for values in inside for x in values if isinstance(x, dict | list)]
        if not level:
            break
    else:
        raise BadRequest(f"the body is nested deeper than {MAX_DEPTH}")


def _check_text(body: dict[str, Any]) -> None:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadRequest("a text in the body is not Unicode: it has half of a pair") from None


def known_fields(body: Mapping[str, Any], *names: str) -> None:
    for name in body:
        if name not in names:
            raise BadRequest(f"unknown field {shown(name)}", where="body")


def text(body: Mapping[str, Any], name: str, *, longest: int = 4096) -> str:
    """A field with a text that is not empty."""
    found = body.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= longest or "\0" in found:
        raise BadRequest(f"a text of 1 to {longest} characters is needed", where=f"body.{name}")
    return found


def count(body: Mapping[str, Any]) -> int:
    """A number of replicas. In JSON, 2.0 is a whole number too."""
    found: Any = body.get("count")
    if type(found) in (int, float) and found in range(1, MAX_REPLICAS + 1):
        return int(found)
    raise BadRequest(f"a whole number from 1 to {MAX_REPLICAS} is needed", where="body.count")


def integer(given: str | None, name: str, default: int, least: int, most: int) -> int:
    """A parameter that is a whole number."""
    if given is None:
        return default
    plain = given.isascii() and given.isdigit() and len(given) < 20
    if not plain or not least <= int(given) <= most:
        raise BadRequest(f"a whole number from {least} to {most} is needed", where=name)
    return int(given)


def environment(body: Mapping[str, Any]) -> dict[str, str]:
    found = body.get("env", {})
    if not isinstance(found, dict):
        raise BadRequest("an object is needed", where="body.env")
    for name, value in found.items():
        if not name or "=" in name or "\0" in name:
            raise BadRequest(f"{shown(name)} is not the name of a variable", where="body.env")
        if not isinstance(value, str) or "\0" in value:
            raise BadRequest("a text is needed", where=f"body.env.{name[:60]}")
    return found


def listed_jobs(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = body.get("jobs")
    if not isinstance(found, list) or not 0 < len(found) <= MAX_JOBS:
        raise BadRequest(
            f"a list of 1 to {MAX_JOBS} jobs is needed: submit more in parts", where="body.jobs"
        )
    if not all(isinstance(job, dict) for job in found):
        raise BadRequest("each job is an object", where="body.jobs")
    return found
