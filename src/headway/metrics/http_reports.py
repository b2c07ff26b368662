"""Reports over HTTP, by the SDK and by Kubeflow's status protocol.

The operator and `headway serve` accept the same bodies at the same paths.
"""

from typing import Any

SDK, KUBEFLOW = "/v1/reports", "/kubeflow"
"""Paths below the address of the server."""
LARGEST_BODY = 2**20
MOST_REPORTS = 1000
MOST_METRICS = 256
"""Maximum number of metrics in a status of Kubeflow's protocol."""
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError)
"""Exceptions that an invalid body causes."""


def variables(url: str, token: str) -> dict[str, str]:
    """Return environment variables for clients of Kubeflow's status protocol, such as Hugging
    Face's trainer. `token`: path of the file with the token.
    """
    return {
        "KUBEFLOW_TRAINER_SERVER_URL": f"{url}{KUBEFLOW}",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": token,
    }


def from_sdk(body: Any) -> list[Any]:
    """Return the reports of a body."""
    reports = body.get("reports") if isinstance(body, dict) else None
    if not isinstance(reports, list) or len(reports) > MOST_REPORTS:
        raise ValueError(f"reports: a list of at most {MOST_REPORTS}")
    return reports


def from_kubeflow(body: Any, metric: str) -> dict[str, Any]:
    """Convert Kubeflow's `trainerStatus` to a report of the SDK. Without steps, its progress is in
    percent.
    """
    status = body.get("trainerStatus") if isinstance(body, dict) else None
    if not isinstance(status, dict):
        raise TypeError("trainerStatus is required")
    given = status.get("metrics") or []
    if not isinstance(given, list) or len(given) > MOST_METRICS:
        raise ValueError(f"metrics: a list of at most {MOST_METRICS}")
    values = {str(each["name"]): float(each["value"]) for each in given}
    found: dict[str, Any] = {}
    names = ("current_step", "global_step", "step")
    step = next((values[name] for name in names if name in values), None)
    percent = status.get("progressPercentage")
    if step is not None:
        found |= {"step": step}
        if "total_steps" in values:
            found |= {"total_steps": values["total_steps"]}
    elif percent is not None:
        found |= {"step": float(percent), "total_steps": 100.0}
    value = next((values[name] for name in (metric, f"train_{metric}") if name in values), None)
    return found if value is None else {**found, metric: value}
