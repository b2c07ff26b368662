"""Convert pydantic's validation errors to one message: what is wrong, where, and what to do."""

from collections.abc import Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from headway.errors import ConfigError, shown

Location = tuple[int | str, ...]
_SHOWN = 5

_MAPPINGS = ("dict_type", "model_type", "model_attributes_type")
_MESSAGES = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(_MAPPINGS, "must be a mapping"),
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
}
_REMEDIES = {
    **dict.fromkeys(("greater_than_equal", "greater_than"), "use a larger value"),
    **dict.fromkeys(_MAPPINGS, "write {key: value}"),
    "missing": "add the key",
    "string_type": 'quote it, for example "1"',
}
_TYPES = frozenset({*_MESSAGES, "literal_error"}) - {"finite_number", "too_short"}
"""Errors that say that the input has another type."""
_NAMES = {"^[a-z0-9]": "lower-case letters, digits, '-' and '.'",
          "^([A-Za-z0-9]": "letters, digits, '-', '_' and '.'"}  # fmt: skip
"""Start of the patterns of names, and what they allow."""


def to_config_error(error: ValidationError, root: Any, where: str) -> ConfigError:
    """Describe all errors of a file whose YAML nodes are below `root`."""
    found = error.errors(include_url=False)
    broken = {e["loc"][:i] for e in found for i in range(len(e["loc"]))}
    # Pydantic drops invalid entries of a list, and then also reports the list as too short.
    real = [e for e in found if e["type"] != "too_short" or e["loc"] not in broken]
    problems = [_problem(group, root, where) for group in _groups(real, root)]
    shown = problems[:_SHOWN]
    more = len(problems) - len(shown)
    if len(shown) == 1:
        message, place, hint = shown[0]
        return ConfigError(message, where=place, hint=hint)
    listed = [f"{place}: {message}{f' ({hint})' if hint else ''}" for message, place, hint in shown]
    tail = [f"and {more} more"] if more else []
    return ConfigError(f"{len(problems)} problems\n  " + "\n  ".join([*listed, *tail]), where=where)


def _groups(found: Sequence[Any], root: Any) -> list[list[Any]]:
    """Group errors of one place. For a union, pydantic reports the errors of every member; only
    those of the member that matches the input are kept, if there is one.
    """
    groups: dict[Location, list[Any]] = {}
    for e in found:
        groups.setdefault(_written(e, root)[0], []).append(e)
    out: list[list[Any]] = []
    for place, group in groups.items():
        kept = [e for e in group if _written(e, root)[1] != place or e["type"] not in _TYPES]
        out += [[e] for e in kept] or [group]
    return out


def _written(e: Any, root: Any) -> tuple[Location, Location]:
    """Return the location up to the first union (all of it, if there is none); and the whole
    location without pydantic's names of union members, which are not in the file.
    """
    node, split = root, None
    location: Location = ()
    for part in e["loc"]:
        below = _below(node, part)
        if below is None and (e["type"] != "missing" or part != e["loc"][-1]):
            split = location if split is None else split
            continue
        location, node = (*location, part), below[1] if below else None
    return (location if split is None else split), location


def _problem(group: Sequence[Any], root: Any, where: str) -> tuple[str, str, str]:
    e = group[0]
    location = _written(e, root)[1]
    if e["type"] == "missing":
        if isinstance(location[-1], int):
            return f"entry {location[-1] + 1} is missing", place_of(root, location, where), ""
        return f"{location[-1]!r} is missing", place_of(root, location, where), _REMEDIES["missing"]
    if e["type"] == "rule":
        rule = e["ctx"]
        given = f", but is {shown(rule['given'])}" if isinstance(rule["given"], int | str) else ""
        field = (*location, *rule["field"].split("."))
        return f"{rule['field']}: {rule['message']}{given}", place_of(root, field, where), ""
    if e["type"] == "unknown_key":
        message, _, hint = e["msg"].partition("; ")
        line = line_of(root, (*location, e["ctx"]["key"]))
        return message, place_of(root, location, where, line), hint
    if e["type"] == "repeated":
        location = (*location, e["ctx"]["index"], "name")
        return e["msg"], place_of(root, location, where), "rename one of them"
    message = " or ".join([_message(e), *(_message(o).removeprefix("must be ") for o in group[1:])])
    if isinstance(e["input"], int | float | str) and e["type"] != "value_error":
        message += f", not {shown(e['input'])}"
    return message, place_of(root, location, where), _hint(e, _text_at(root, location))


def _message(e: Any) -> str:
    if e["type"] == "string_pattern_mismatch" and e["ctx"]["pattern"] == r"\S":
        return "must not be blank"
    if e["type"] == "string_pattern_mismatch":
        for start, allowed in _NAMES.items():
            if e["ctx"]["pattern"].startswith(start):
                return f"must be {allowed}, with a letter or digit at each end"
    if e["type"] == "literal_error":
        return f"must be {e['ctx']['expected']}"
    text = e["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return _MESSAGES.get(e["type"], f"{text[:1].lower()}{text[1:]}")


def _hint(e: Any, written: str) -> str:
    if e["type"] == "tuple_type":
        words = e["input"].split() if isinstance(e["input"], str) else []
        short = words and len(e["input"]) <= 60
        return f"write [{', '.join(words if short else ['a', 'b'])}]"
    if e["type"] == "string_type" and 0 < len(written) <= 60:
        return f'quote it: "{written}"'
    return _REMEDIES.get(e["type"], "")


def place_of(root: Any, location: Location, where: str, line: int | None = None) -> str:
    place = f"{where}:{line or line_of(root, location)}"
    return f"{place}, {format_location(location)}" if location else place


def _below(node: Any, part: int | str) -> tuple[int, Any] | None:
    """Return line and node of an entry of a mapping or a list, or None."""
    if isinstance(node, yaml.MappingNode):
        found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
        return found and (found[0].start_mark.line + 1, found[1])
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


def _text_at(root: Any, location: Location) -> str:
    """Return the scalar of a location as it is written in the file, or ""."""
    node = root
    for part in location:
        below = _below(node, part)
        if below is None:
            return ""
        node = below[1]
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def line_of(root: Any, location: Location) -> int:
    """Return the line of the deepest node of a location that exists in the file."""
    node, line = root, 1
    for part in location:
        below = _below(node, part)
        if below is None:
            break
        line, node = below
    return line


def format_location(location: Location) -> str:
    """Format a location in a file.

    >>> format_location(("jobs", 2, "profile", "work"))
    'jobs[2].profile.work'
    """
    parts = [f"[{p}]" if isinstance(p, int) else f".{p[:60]}" for p in location]
    return "".join(parts).removeprefix(".")
