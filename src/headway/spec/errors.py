"""What pydantic found wrong with a file, in words for who wrote it: what, where and what to do."""

from collections.abc import Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from headway.errors import ConfigError

Location = tuple[int | str, ...]
_SHOWN = 5

_MESSAGES = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number, and neither NaN nor infinity",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "dict_type": "must have keys",
    "model_type": "must have keys",
    "model_attributes_type": "must have keys",
    "too_short": "must not be empty",
}
_REMEDIES = {
    "missing": "add this key",
    "greater_than_equal": "use a value that is large enough",
    "greater_than": "use a value that is large enough",
    "dict_type": "write {key: value}",
    "model_type": "write {key: value}",
    "model_attributes_type": "write {key: value}",
    "string_type": 'put it in quotes, such as "1"',
}
_FORMS = frozenset({*_MESSAGES, "literal_error"}) - {"finite_number", "too_short"}
"""A thing of another form than this."""
_NAME = "^[a-z0-9]"
"""How the pattern of a name begins."""


def readable(error: ValidationError, root: Any, where: str) -> ConfigError:
    found = error.errors(include_url=False)
    broken = {e["loc"][:i] for e in found for i in range(len(e["loc"]))}
    # A list whose entries are wrong is also called too short by pydantic: it has dropped them.
    real = [e for e in found if e["type"] != "too_short" or e["loc"] not in broken]
    problems = [_problem(e, root, where) for e in _meant(real, root)]
    shown = problems[:_SHOWN]
    more = len(problems) - len(shown)
    if len(shown) == 1:
        message, place, hint = shown[0]
        return ConfigError(message, where=place, hint=hint)
    listed = [f"{place}: {message}{f' ({hint})' if hint else ''}" for message, place, hint in shown]
    tail = [f"and {more} more"] if more else []
    return ConfigError(f"{len(problems)} problems\n  " + "\n  ".join([*listed, *tail]), where=where)


def _meant(found: Sequence[Any], root: Any) -> list[list[Any]]:
    """What belongs together. Where one of several forms is allowed, pydantic tells what is wrong
    with each of them; only the one that was written matters, if there is one.
    """
    groups: dict[Location, list[Any]] = {}
    for e in found:
        groups.setdefault(_written(e, root)[0], []).append(e)
    out: list[list[Any]] = []
    for place, group in groups.items():
        meant = [e for e in group if _written(e, root)[1] != place or e["type"] not in _FORMS]
        out += [[e] for e in meant] or [group]
    return out


def _written(e: Any, root: Any) -> tuple[Location, Location]:
    """The place up to where it splits into forms (all of it, if it does not); and all of it without
    the names that pydantic gives to the forms: they are in no file.
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
        return f"{location[-1]!r} is missing", _place(root, location, where), _REMEDIES["missing"]
    if e["type"] == "rule":
        rule = e["ctx"]
        given = f", not {rule['given']!r}" if isinstance(rule["given"], int | str) else ""
        blamed = (*location, *rule["field"].split("."))
        return rule["says"] + given, _place(root, blamed, where), ""
    if e["type"] == "unknown_key":
        message, _, hint = e["msg"].partition("; ")
        line = line_of(root, (*location, e["ctx"]["key"]))
        return message, _place(root, location, where, line), hint
    message = " or ".join([_says(e), *(_says(o).removeprefix("must be ") for o in group[1:])])
    if isinstance(e["input"], int | float | str) and e["type"] != "value_error":
        message += f", not {e['input']!r}"
    return message, _place(root, location, where), _hint(e)


def _says(e: Any) -> str:
    if e["type"] == "string_pattern_mismatch" and e["ctx"]["pattern"].startswith(_NAME):
        return "a name is small letters, digits, '-' and '.', with no '-' or '.' at its ends"
    if e["type"] == "literal_error":
        return f"must be {e['ctx']['expected']}"
    said = e["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return _MESSAGES.get(e["type"], f"{said[:1].lower()}{said[1:]}")


def _hint(e: Any) -> str:
    if e["type"] == "tuple_type":
        given = e["input"].split() if isinstance(e["input"], str) else ["a", "b"]
        return f"write [{', '.join(given)}]"
    return _REMEDIES.get(e["type"], "")


def _place(root: Any, location: Location, where: str, line: int | None = None) -> str:
    there = f"{where}:{line or line_of(root, location)}"
    return f"{there}, {spell(location)}" if location else there


def _below(node: Any, part: int | str) -> tuple[int, Any] | None:
    """Line and node of a part of a mapping or a list, if it has that."""
    if isinstance(node, yaml.MappingNode):
        found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
        return found and (found[0].start_mark.line + 1, found[1])
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


def line_of(root: Any, location: Location) -> int:
    """The line of the deepest node on the way that the file really has."""
    node, line = root, 1
    for part in location:
        below = _below(node, part)
        if below is None:
            break
        line, node = below
    return line


def spell(location: Location) -> str:
    """A place in a file, as people write it.

    >>> spell(("jobs", 2, "profile", "work"))
    'jobs[2].profile.work'
    """
    parts = [f"[{p}]" if isinstance(p, int) else f".{p}" for p in location]
    return "".join(parts).removeprefix(".")


def refuse_twice(root: Any, where: str) -> None:
    """YAML lets a key occur twice in one place, and the last one wins without a word."""
    todo, known = [root], set()
    while todo:
        node = todo.pop()
        if id(node) in known or not isinstance(node, yaml.CollectionNode):
            continue
        known.add(id(node))  # an alias may stand for it in many places
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
                    hint="put what belongs together below one of them",
                )
            lines[key.value] = line
