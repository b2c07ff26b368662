"""The OpenAPI document of the API."""

from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints

from headway import __version__
from headway.client import BASE, KEY
from headway.runtime.job_status import ENDED, JobStatus
from headway.server.network import OPEN
from headway.server.problems import MEDIA_TYPE
from headway.server.requests import MAX_PAGE, MAX_REPLICAS, PAGE
from headway.spec.generated_jobs import MAX_JOBS
from headway.spec.workload import JobEntry

LIVE = (
    "pending", "starting", "running", "migrating", "suspending", "paused", "backoff", "stopping",
)  # fmt: skip
"""Phases of jobs that have not ended."""
PHASES = (*LIVE, *sorted(ENDED))
LINES = 10_000
"""Lines of output in one answer."""
REPLICA = "[a-z0-9-]{1,80}"
REF = "#/components/schemas/"
TYPES = {str: "string", float: "number", int: "integer", type(None): "null", tuple: "array"}
MAX_NUMBER = 2**63 - 1


@cache
def document(*, tokens: bool = False) -> dict[str, Any]:
    """Return the OpenAPI document. `tokens`: for TCP, where each request needs a token."""
    paths = {**_probes(), **_server(), **_jobs(), **_one_job(), **_requests()}
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "Headway",
            "version": __version__,
            "description": "Jobs of `headway serve`, on a Unix socket in the folder of its run.",
        },
        "paths": paths,
        "components": {"schemas": _schemas()},
    }
    return _with_tokens(made) if tokens else made


def _with_tokens(made: dict[str, Any]) -> dict[str, Any]:
    scheme = {"type": "http", "scheme": "bearer", "description": "`headway token create NAME`"}
    for path, methods in made["paths"].items():
        for method, about in methods.items():
            if method in ("get", "post") and path in OPEN:
                about["security"] = []
            elif method in ("get", "post"):
                about["responses"]["401"] = _problem()
    info = {**made["info"], "description": "Jobs of `headway serve`, over TCP."}
    schemes = {**made["components"], "securitySchemes": {"token": scheme}}
    return {**made, "info": info, "components": schemes, "security": [{"token": []}]}


def _probes() -> dict[str, Any]:
    ready = _get("readyz", "Whether the loop is at work.", {"200": _text(), "503": _text()})
    return {
        "/healthz": _get("healthz", "Whether the API answers.", {"200": _text()}),
        "/readyz": ready,
        "/metrics": _get("metrics", "Counters for Prometheus.", {"200": _text()}),
    }


def _server() -> dict[str, Any]:
    node = _object(
        {
            "name": {"type": "string"},
            "cpu_cores": {"type": "number"},
            "drained": {"type": "boolean"},
        }
    )
    about = _object(
        {
            "version": {"type": "string"},
            "run": {"type": "string"},
            "policy": {"type": "string"},
            "began": {"type": "number"},
            "nodes": {"type": "array", "items": node},
        }
    )
    anything = {"type": "object"}
    stream = {"description": "Changes of jobs", "content": {"text/event-stream": {}}}
    last = _parameter(
        "Last-Event-ID", "header", {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER}
    )
    done = _json(_object({"run": {"type": "string"}, "jobs": {"type": "string"}}))
    statuses = dict.fromkeys(["400", "408", "409", "413", "415", "504"], _problem())
    stop = {
        "operationId": "stopServer",
        "summary": "End the server. Its jobs continue (`keep`), or are cancelled first (`stop`).",
        "responses": {"202": done} | statuses,
        "requestBody": _body("Stop"),
    }
    return {
        f"{BASE}/server/stop": {"post": stop},
        **_nodes(),
        f"{BASE}/openapi.json": _get("openapi", "This document.", {"200": _json(anything)}),
        f"{BASE}/server": _get("server", "The server.", {"200": _json(about)}),
        f"{BASE}/events": _get(
            "events", "Changes of jobs, as they happen: server-sent events, each with a job.",
            {"200": stream, "400": _problem(), "429": _problem()}, [last],
        ),
    }  # fmt: skip


def _nodes() -> dict[str, Any]:
    done = _json(_object({"node": {"type": "string"}, "wish": {"type": "string"}}))
    name = {"type": "string", "minLength": 1, "maxLength": 253}
    node = {**_parameter("node", "path", name, "The name of a node."), "required": True}
    return {
        f"{BASE}/nodes/{{node}}/{wish}": {
            "parameters": [node],
            "post": {
                "operationId": f"{wish}Node",
                "summary": what,
                "responses": {"202": done} | dict.fromkeys(["404", "409", "504"], _problem()),
            },
        }
        for wish, what in (
            ("drain", "Start no replicas on a node; move the jobs there that can be moved."),
            ("undrain", "Start replicas on a node again."),
        )
    }


def _jobs() -> dict[str, Any]:
    parameters = [
        _parameter(
            "limit", "query",
            {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": PAGE},
        ),
        _parameter(
            "after", "query", {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER},
            "`next` of the page before.",
        ),
        _parameter("state", "query", {"enum": ["active", "ended", "all"], "default": "all"}),
        _parameter("phase", "query", {"enum": [*PHASES]}),
    ]  # fmt: skip
    page = _object(
        {"jobs": {"type": "array", "items": _ref("Job")}, "next": {"type": ["string", "null"]}}
    )
    key = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": f"^{KEY}$"}
    names = _json(_object({"jobs": {"type": "array", "items": {"type": "string"}}}))
    listing = _get(
        "listJobs", "Jobs in the order of their submission.",
        {"200": _json(page), "400": _problem()}, parameters,
    )  # fmt: skip
    submit = {
        "operationId": "submitJobs",
        "summary": "Submit jobs, all or none. They are stored when this is answered.",
        "parameters": [
            _parameter(
                "Idempotency-Key", "header", key, "A second submission with it adds nothing."
            )
        ],
        "requestBody": _body("Submission"),
        "responses": {
            "200": {**names, "description": "The ids of the first submission with this key"},
            "201": {
                **names,
                "links": _links(),
                "description": "The id of each job: its name, or with a number",
            },
            **{
                status: _problem()
                for status in ("400", "403", "408", "413", "415", "422", "429", "503")
            },
        },
    }
    return {f"{BASE}/jobs": {**listing, "post": submit}}


def _links() -> dict[str, Any]:
    """Return the links from a submitted job to the requests about it."""
    wishes = [f"{wish}Job" for wish in ("cancel", "pause", "resume", "move", "scale")]
    job = {"job": "$response.body#/jobs/0"}
    return {
        name: {"operationId": name, "parameters": job}
        for name in ("getJob", "jobLogs", "explainJob", *wishes)
    }


def _one_job() -> dict[str, Any]:
    one = f"{BASE}/jobs/{{job}}"
    missing, denied = {"404": _problem()}, {"403": _problem()}
    lines = {"type": "integer", "minimum": 0, "maximum": LINES, "default": 1000}
    replica = {"type": "string", "pattern": f"^{REPLICA}$"}
    told = {"type": "object", "required": ["job", "events"]}
    paths = {
        one: _get("getJob", "One job.", {"200": _json(_ref("Job")), **missing}),
        f"{one}/logs": _get(
            "jobLogs", "The last lines of the output of a replica.",
            {"200": _text(), "400": _problem(), **denied, **missing},
            [_parameter("lines", "query", lines), _parameter("replica", "query", replica)],
        ),
        f"{one}/explain": _get(
            "explainJob", "What is known of a job, and the decisions about it.",
            {"200": _json(told), "422": _problem(), **denied, **missing},
        ),
    }  # fmt: skip
    return {path: {**about, "parameters": [_job()]} for path, about in paths.items()}


def _requests() -> dict[str, Any]:
    done = _json(_object({"job": {"type": "string"}, "wish": {"type": "string"}}))
    found: dict[str, Any] = {}
    for wish, what in (
        ("cancel", "Stop a job for good."),
        ("pause", "Checkpoint and stop a job until it is resumed."),
        ("resume", "Continue a paused job."),
        ("move", "Move a job to another node."),
        ("scale", "Change the number of replicas of a task."),
    ):
        statuses = ["403", "404", "409", "504"]
        body: dict[str, Any] = {}
        if wish in ("move", "scale"):
            statuses += ["400", "408", "413", "415"]
            body = {"requestBody": _body(wish.capitalize())}
        found[f"{BASE}/jobs/{{job}}/{wish}"] = {
            "parameters": [_job()],
            "post": {
                "operationId": f"{wish}Job",
                "summary": what,
                "responses": {"202": done} | dict.fromkeys(statuses, _problem()),
                **body,
            },
        }
    return found


def _schemas() -> dict[str, Any]:
    entry = JobEntry.model_json_schema(by_alias=True, ref_template=REF + "{model}")
    text = {"type": "string", "pattern": "^[^\\u0000]*$"}
    submission = {
        "type": "object",
        "required": ["jobs", "directory"],
        "additionalProperties": False,
        "properties": {
            "jobs": {
                "type": "array", "items": _ref("JobEntry"), "minItems": 1, "maxItems": MAX_JOBS,
            },
            "directory": {
                "type": "string", "pattern": "^/[^\\u0000]*$", "maxLength": 4096,
                "description": "Absolute; relative paths of the jobs begin here.",
            },
            "env": {
                "type": "object", "propertyNames": {"pattern": "^[^=\\u0000]+$"},
                "additionalProperties": text,
                "description": "Variables that the jobs get in addition.",
            },
        },
    }  # fmt: skip
    name = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[^\\u0000]+$"}
    task = {**name, "maxLength": 63}
    count = {"type": "integer", "minimum": 1, "maximum": MAX_REPLICAS}
    closed = {"additionalProperties": False}
    return {
        **entry.pop("$defs", {}),
        "JobEntry": entry,
        "Submission": submission,
        "Job": _job_schema(),
        "Move": _object({"to": name}) | closed,
        "Stop": _object({"jobs": {"enum": ["keep", "stop"]}}) | closed,
        "Scale": _object({"task": task, "count": count}) | closed,
        "Problem": _object(
            {
                **{k: {"type": "string"} for k in ("type", "title", "detail", "code", "where")},
                "hint": {"type": "string"},
                "status": {"type": "integer"},
            }
        ),
    }


def _job_schema() -> dict[str, Any]:
    """A job as in the answers, from the fields of its class."""
    found = {}
    for name, kind in get_type_hints(JobStatus).items():
        kinds = (
            get_args(kind) if isinstance(kind, UnionType) else [getattr(kind, "__origin__", kind)]
        )
        types = [TYPES[k] for k in kinds]
        found[name] = {"type": types if len(types) > 1 else types[0]}
    return _object(found)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": REF + name}


def _get(
    name: str, summary: str, responses: dict[str, Any], parameters: list[Any] | None = None
) -> dict[str, Any]:
    about = {"operationId": name, "summary": summary, "responses": responses}
    return {"get": {**about, "parameters": parameters} if parameters else about}


def _parameter(name: str, where: str, schema: dict[str, Any], about: str = "") -> dict[str, Any]:
    return {"name": name, "in": where, "schema": schema, "description": about}


def _job() -> dict[str, Any]:
    schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", "maxLength": 63}
    return {**_parameter("job", "path", schema, "The id of a job."), "required": True}


def _body(name: str) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": _ref(name)}}}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "Done", "content": {"application/json": {"schema": schema}}}


def _text() -> dict[str, Any]:
    return {"description": "Text", "content": {"text/plain": {"schema": {"type": "string"}}}}


def _problem() -> dict[str, Any]:
    return {"description": "A problem", "content": {MEDIA_TYPE: {"schema": _ref("Problem")}}}
