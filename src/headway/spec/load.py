"""A user's file to a checked model, or to one message that says what, where and what to do."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from headway.errors import ConfigError, UnknownName
from headway.spec.catalogue import models_of
from headway.spec.errors import Location, line_of, readable, refuse_twice, spell
from headway.spec.manifest import TrainingJob
from headway.spec.workload import Workload

T = TypeVar("T", bound=BaseModel)


def read_workload(path: Path) -> Workload:
    """A `TrainingJob` is a workload of this one job."""
    text, where = _text(path), str(path)
    root, data = _loaded(text, where)
    if isinstance(data, dict) and data.get("kind") == TrainingJob.__name__:
        job = _checked(root, data, TrainingJob, where)
        alone = {"name": job.metadata.name, "at": 0, "spec": job.spec}
        return Workload.model_validate(
            {"apiVersion": job.api_version, "kind": "Workload", "jobs": [alone]}
        )
    workload = _checked(root, data, Workload, where)
    _refuse_unknown_models(workload, root, where)
    return workload


def read_manifest(path: Path) -> TrainingJob:
    return parse(_text(path), TrainingJob, where=str(path))


def parse(text: str, model: type[T], *, where: str) -> T:
    """Check YAML text; `where` is what a message calls its source."""
    return _checked(*_loaded(text, where), model, where)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read this file: {why}", where=str(path)) from None


def _loaded(text: str, where: str) -> tuple[Any, Any]:
    """The file as nodes, which know their lines, and as data."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        refuse_twice(root, where)
        return root, yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        if "another document" in problem:
            raise ConfigError(
                "a file holds one document, and here begins another",
                where=f"{where}{line}",
                hint="put it into a file of its own, or leave out '---'",
            ) from None
        raise ConfigError(
            f"this is not YAML: {problem}", where=f"{where}{line}", hint="check the indentation"
        ) from None


def _checked(root: Any, data: Any, model: type[T], where: str) -> T:
    why = _other_thing(data, model)
    if why:
        raise ConfigError(
            f"this is no {model.__name__}: {why}",
            where=f"{where}:{line_of(root, ('kind',))}" if data else where,
            hint=f"start with 'apiVersion: headway.dev/v1alpha1' and 'kind: {model.__name__}'",
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise readable(error, root, where) from None


def _other_thing(data: Any, model: type[BaseModel]) -> str:
    """Why a file is something else altogether, and not one with a mistake."""
    if not isinstance(data, dict):
        return "it is empty" if data is None else "no keys"
    if "kind" in data:
        return "" if data["kind"] == model.__name__ else f"its kind is {data['kind']!r}"
    known = {field.alias or name for name, field in model.model_fields.items()}
    return "" if known.issuperset(data) else "it does not say its kind"


def _refuse_unknown_models(workload: Workload, root: Any, where: str) -> None:
    named: list[tuple[Location, str]] = [
        (("jobs", i, "model"), job.model)
        for i, job in enumerate(workload.jobs)
        if job.model and not (job.profile or job.measured)
    ]
    drawn = workload.arrivals.models if workload.arrivals else None
    if isinstance(drawn, tuple):
        named += [(("arrivals", "models", i), model) for i, model in enumerate(drawn)]
    known = models_of(workload) if named else {}
    for location, model in named:
        if model not in known:
            place = f"{where}:{line_of(root, location)}, {spell(location)}"
            raise UnknownName("model", model, known, where=place)
