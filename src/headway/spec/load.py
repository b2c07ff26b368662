"""Read users' files into models; an error says what is wrong, where, and what to do."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from headway.errors import ConfigError, UnknownName, shown
from headway.spec.bounded_file import read_text
from headway.spec.catalogue import all_models
from headway.spec.manifest import TrainingJob
from headway.spec.validation_errors import Location, line_of, place_of, to_config_error
from headway.spec.workload import Workload
from headway.spec.yaml_reader import load

T = TypeVar("T", bound=BaseModel)


def read_workload(path: Path) -> Workload:
    """Read a workload; a `TrainingJob` becomes a workload of one job."""
    where = str(path)
    root, data = load(read_text(path), where)
    if isinstance(data, dict) and data.get("kind") == TrainingJob.__name__:
        job = _validate(root, data, TrainingJob, where)
        entry = {"name": job.metadata.name, "at": 0, "spec": job.spec}
        return Workload.model_validate(
            {"apiVersion": job.api_version, "kind": "Workload", "jobs": [entry]}
        )
    workload = _validate(root, data, Workload, where)
    try:
        all_models(workload)
    except UnknownName as error:
        error.where = place_of(root, ("pool",), where)
        raise
    _refuse_unknown_models(workload, root, where)
    return workload


def read_stored(path: Path) -> Workload:
    """Read a workload that Headway stored in a run directory: as JSON, because other YAML takes
    seconds for thousands of jobs. What an earlier version wrote there is read as any workload.
    """
    try:
        return Workload.model_validate(json.loads(read_text(path)))
    except (ValueError, RecursionError):
        return read_workload(path)


def read_manifest(path: Path) -> TrainingJob:
    return parse(read_text(path), TrainingJob, where=str(path))


def parse(text: str, model: type[T], *, where: str) -> T:
    """Read YAML text; `where` names its source in messages."""
    return _validate(*load(text, where), model, where)


def _validate(root: Any, data: Any, model: type[T], where: str) -> T:
    why = _wrong_kind(data, model)
    if why:
        raise ConfigError(
            f"not a {model.__name__}: {why}",
            where=f"{where}:{line_of(root, ('kind',))}" if data else where,
            hint=f"start with 'apiVersion: headway.dev/v1alpha1' and 'kind: {model.__name__}'",
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise to_config_error(error, root, where) from None


def _wrong_kind(data: Any, model: type[BaseModel]) -> str:
    """Return why a file is of another kind; "": it is of this kind."""
    if not isinstance(data, dict):
        return "the file is empty" if data is None else "the file has no keys"
    if "kind" in data:
        return "" if data["kind"] == model.__name__ else f"its kind is {shown(data['kind'])}"
    known = {field.alias or name for name, field in model.model_fields.items()}
    return "" if known.issuperset(data) else "it has no key 'kind'"


def _refuse_unknown_models(workload: Workload, root: Any, where: str) -> None:
    names: list[tuple[Location, str]] = [
        (("jobs", i, "model"), job.model)
        for i, job in enumerate(workload.jobs)
        if job.model and not (job.profile or job.measured)
    ]
    generated = workload.arrivals.models if workload.arrivals else None
    if isinstance(generated, tuple):
        names += [(("arrivals", "models", i), model) for i, model in enumerate(generated)]
    known = all_models(workload) if names else {}
    for location, model in names:
        if model not in known:
            raise UnknownName("model", model, known, where=place_of(root, location, where))
