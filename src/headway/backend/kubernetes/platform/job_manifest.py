"""Convert a manifest for the API server."""

from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.spec.manifest import TrainingJobSpec

AMOUNTS = (
    "cpu", "memory", "scratch", "graceSeconds", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
)  # fmt: skip


def written(spec: TrainingJobSpec) -> Plain:
    """Return a manifest for the API server, with fractional amounts as strings."""
    found: Plain = spec.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude_none=True
    )
    return {key: _amounts(value, key) for key, value in found.items()}


def _amounts(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _amounts(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_amounts(v) for v in value]
    if isinstance(value, float) and key in AMOUNTS:
        return f"{value:.12g}" if key == "cpu" else f"{value:.0f}"
    return value
