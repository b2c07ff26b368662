"""Features that only some platforms support. A job that needs an unsupported one is refused."""

from collections.abc import Collection, Iterator

from pydantic.alias_generators import to_camel

from headway.errors import ConfigError
from headway.spec.manifest import TaskSpec, TrainingJobSpec

JOB_FEATURES = frozenset({"active_deadline_seconds", "suspend", "ttl_seconds_after_finished"})
TASK_FEATURES = frozenset({"env_from", "mounts", "node_selector", "pod_template"})
"""Tolerations are supported everywhere: they permit nodes and require none."""
ALL_FEATURES = frozenset(to_camel(name) for name in JOB_FEATURES | TASK_FEATURES)
LIVE_FEATURES = frozenset({"activeDeadlineSeconds"})
"""Supported on every live platform: the controller enforces the time limit."""


def refuse_unsupported(
    spec: TrainingJobSpec, supported: Collection[str], *, job: str, where: str
) -> None:
    """Raise if the job uses a feature that is not in `supported` (named as in a manifest)."""
    used = list(_given(spec, JOB_FEATURES))
    for i, task in enumerate(spec.tasks):
        used += [f"tasks[{i}].{name}" for name in _given(task, TASK_FEATURES)]
    refused = [name for name in used if name.rpartition(".")[2] not in supported]
    if refused:
        raise ConfigError(
            f"job {job!r} uses {' and '.join(refused)}, which this platform does not support",
            where=where,
            hint="run it on Kubernetes, or remove the field",
        )


def _given(model: TrainingJobSpec | TaskSpec, of: frozenset[str]) -> Iterator[str]:
    for name in sorted(of & model.model_fields_set):
        given = getattr(model, name)
        if given not in (None, (), {}) and given is not False:
            yield to_camel(name)
