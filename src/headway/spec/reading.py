"""A user's file to a checked model, or to one message that says what, where and what to do."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from headway.errors import ConfigError
from headway.spec.manifest import TrainingJob
from headway.spec.workload import Workload

T = TypeVar("T", bound=BaseModel)
Location = tuple[int | str, ...]
_SHOWN = 5

_REMEDIES = {
    "missing": "add this key",
    "greater_than_equal": "use a value that is large enough",
    "greater_than": "use a value that is large enough",
    "finite_number": "NaN and infinity are no amounts",
}


def read_workload(path: Path) -> Workload:
    return _read(path, Workload)


def read_manifest(path: Path) -> TrainingJob:
    return _read(path, TrainingJob)


def _read(path: Path, model: type[T]) -> T:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read this file: {why}", where=str(path)) from None
    return parse(text, model, where=str(path))


def parse(text: str, model: type[T], *, where: str) -> T:
    """Check YAML text; `where` is what a message calls its source."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        data = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(
            f"this is not YAML: {problem}", where=f"{where}{line}", hint="check the indentation"
        ) from None
    if not isinstance(data, dict):
        raise ConfigError(
            f"this is no {model.__name__}: {'it is empty' if data is None else 'no keys'}",
            where=where,
            hint=f"start with 'apiVersion: headway.dev/v1alpha1' and 'kind: {model.__name__}'",
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _readable(error, root, where) from None


def _readable(error: ValidationError, root: Any, where: str) -> ConfigError:
    found = error.errors(include_url=False)
    broken = {e["loc"][:i] for e in found for i in range(len(e["loc"]))}
    # A list whose entries are wrong is also called too short by pydantic: it has dropped them.
    real = [e for e in found if e["type"] != "too_short" or e["loc"] not in broken]
    problems = [_problem(e, root, where) for e in real]
    shown = problems[:_SHOWN]
    more = len(problems) - len(shown)
    if len(shown) == 1:
        message, place, hint = shown[0]
        return ConfigError(message, where=place, hint=hint)
    listed = [f"{place}: {message}{f' ({hint})' if hint else ''}" for message, place, hint in shown]
    tail = [f"and {more} more"] if more else []
    return ConfigError(f"{len(problems)} problems\n  " + "\n  ".join([*listed, *tail]), where=where)


def _problem(e: Any, root: Any, where: str) -> tuple[str, str, str]:
    location: Location = tuple(p for p in e["loc"] if not _inner(p))
    rule = e["ctx"] if e["type"] == "rule" else {}
    if rule:
        location = (*location, *rule["field"].split("."))
    line = _line(root, location)
    message = e["msg"].removeprefix("Value error, ")
    hint = _REMEDIES.get(e["type"], "")
    if e["type"] == "unknown_key":
        message, _, hint = message.partition("; ")
    elif rule:
        given = rule["given"]
        message = rule["says"] + (f", not {given!r}" if isinstance(given, int | str) else "")
    elif "input" in e and isinstance(e["input"], int | float | str) and e["type"] != "value_error":
        message = f"{message[:1].lower()}{message[1:]}, not {e['input']!r}"
    place = f"{where}:{line}" + (f", {_spell(location)}" if location else "")
    return message, place, hint


def _inner(part: Any) -> bool:
    """Parts of a location that pydantic adds for the branches of a union."""
    return (isinstance(part, str) and any(c in part for c in "[(")) or part in (
        "int",
        "float",
        "str",
    )


def _line(root: Any, location: Location) -> int:
    """The line of the deepest node on the way that the file really has."""
    node, line = root, 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _spell(location: Location) -> str:
    """A place in a file, as people write it.

    >>> _spell(("jobs", 2, "profile", "work"))
    'jobs[2].profile.work'
    """
    parts = [f"[{p}]" if isinstance(p, int) else f".{p}" for p in location]
    return "".join(parts).removeprefix(".")
