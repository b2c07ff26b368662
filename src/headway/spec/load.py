"""Read users' files into models; an error says what is wrong, where, and what to do."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from headway.errors import ConfigError, UnknownName
from headway.spec.catalogue import models_of
from headway.spec.manifest import TrainingJob
from headway.spec.validation_errors import Location, line_of, place_of, to_config_error
from headway.spec.workload import Workload

T = TypeVar("T", bound=BaseModel)


def read_workload(path: Path) -> Workload:
    """Read a workload; a `TrainingJob` becomes a workload of one job."""
    where = str(path)
    root, data = _load(_read_text(path), where)
    if isinstance(data, dict) and data.get("kind") == TrainingJob.__name__:
        job = _validate(root, data, TrainingJob, where)
        entry = {"name": job.metadata.name, "at": 0, "spec": job.spec}
        return Workload.model_validate(
            {"apiVersion": job.api_version, "kind": "Workload", "jobs": [entry]}
        )
    workload = _validate(root, data, Workload, where)
    _refuse_unknown_models(workload, root, where)
    return workload


def read_manifest(path: Path) -> TrainingJob:
    return parse(_read_text(path), TrainingJob, where=str(path))


def parse(text: str, model: type[T], *, where: str) -> T:
    """Read YAML text; `where` names its source in messages."""
    return _validate(*_load(text, where), model, where)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"cannot read this file: {why}", where=str(path)) from None


def _load(text: str, where: str) -> tuple[Any, Any]:
    """Return the file as nodes, which have line numbers, and as data."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        _refuse_repeated_keys(root, where)
        return root, yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        if "another document" in problem:
            raise ConfigError(
                "more than one document in this file",
                where=f"{where}{line}",
                hint="write each document to its own file, or remove '---'",
            ) from None
        raise ConfigError(
            f"invalid YAML: {problem}", where=f"{where}{line}", hint="check the indentation"
        ) from None


def _refuse_repeated_keys(root: Any, where: str) -> None:
    """Raise if a mapping has a key twice; YAML would silently use the last one."""
    todo, known = [root], set()
    while todo:
        node = todo.pop()
        if id(node) in known or not isinstance(node, yaml.CollectionNode):
            continue
        known.add(id(node))  # aliases repeat a node
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
            continue
        lines: dict[str, int] = {}
        for key, value in node.value:
            todo.append(value)
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                both = f"lines {lines[key.value]} and {line}"
                raise ConfigError(
                    f"key {key.value!r} occurs twice: {both}",
                    where=f"{where}:{line}",
                    hint="merge the two entries",
                )
            lines[key.value] = line


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
        return "" if data["kind"] == model.__name__ else f"its kind is {data['kind']!r}"
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
    known = models_of(workload) if names else {}
    for location, model in names:
        if model not in known:
            raise UnknownName("model", model, known, where=place_of(root, location, where))
