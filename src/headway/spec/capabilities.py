"""What not every platform can do. A job that asks for it is refused by name, not run without it."""

from collections.abc import Collection, Iterator

from pydantic.alias_generators import to_camel

from headway.errors import ConfigError
from headway.spec.manifest import TaskSpec, TrainingJobSpec

OF_A_JOB = frozenset({"active_deadline_seconds", "ttl_seconds_after_finished"})
OF_A_TASK = frozenset({"env_from", "mounts", "node_selector", "pod_template"})
"""Tolerations are not among them: they allow a node, and never ask for one."""
EVERYTHING = frozenset(to_camel(name) for name in OF_A_JOB | OF_A_TASK)


def refuse(spec: TrainingJobSpec, honoured: Collection[str], *, job: str, where: str) -> None:
    """Raise if it asks for more than what is `honoured` (as a manifest writes it)."""
    asked = list(_given(spec, OF_A_JOB))
    for i, task in enumerate(spec.tasks):
        asked += [f"tasks[{i}].{name}" for name in _given(task, OF_A_TASK)]
    refused = [name for name in asked if name.rpartition(".")[2] not in honoured]
    if refused:
        raise ConfigError(
            f"job {job!r} asks for {' and '.join(refused)}, which cannot be done here",
            where=where,
            hint="run it on Kubernetes, or leave that out",
        )


def _given(model: TrainingJobSpec | TaskSpec, of: frozenset[str]) -> Iterator[str]:
    for name in sorted(of & model.model_fields_set):
        if getattr(model, name) not in (None, (), {}):
            yield to_camel(name)
