"""Errors of the API: problem details (RFC 9457), with the fields of `headway --json`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headway.errors import HeadwayError, of_file, shown

MEDIA_TYPE = "application/problem+json"
STATUS = {
    "bad-input": 422, "unknown-name": 404, "no-server": 409, "refused": 409, "unreachable": 504,
    "platform": 503, "declined": 409, "denied": 403, "quota": 429,
}  # fmt: skip
"""Status of each code of an error."""


class Refused(HeadwayError):
    """The job is in a state in which this has no effect."""

    code = "refused"


class QuotaExceeded(HeadwayError):
    """The user has as much as its quota allows."""

    code = "quota"


class NotFound(HeadwayError):
    code = "unknown-name"

    def __init__(self, job: str, where: str = "") -> None:
        hint = "headway ps --all lists them (GET /api/v1/jobs)"
        super().__init__(f"no job is called {shown(job)}", where=where, hint=hint)


class BadRequest(HeadwayError):
    """The request does not conform to the OpenAPI document."""

    code = "bad-request"

    def __init__(self, message: str, *, status: int = 400, where: str = "") -> None:
        super().__init__(message, where=where)
        self.status = status


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    where: str = "",
    hint: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    body: dict[str, Any] = {
        "type": f"urn:headway:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "where": where,
        "hint": hint,
    }
    return JSONResponse(body, status, headers, MEDIA_TYPE)


def of_headway(_: Request, error: Exception) -> Response:
    assert isinstance(error, HeadwayError)  # noqa: S101 - registered for it
    status = error.status if isinstance(error, BadRequest) else STATUS.get(error.code, 500)
    return problem(status, error.code, error.message, where=error.where, hint=error.hint)


def of_http(_: Request, error: Exception) -> Response:
    """No such path, or not this method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    return problem(error.status_code, "bad-request", error.detail, headers=error.headers)


def of_system(_: Request, error: Exception) -> Response:
    """A full or read-only disk, for example: nothing was done."""
    assert isinstance(error, OSError)  # noqa: S101 - registered for it
    told = of_file(error)
    return problem(503, "platform", told.message, where=told.where, hint=told.hint)


def unexpected(_: Request, error: Exception) -> Response:
    return problem(500, "defect", f"unexpected {type(error).__name__}; see the log of the server")
