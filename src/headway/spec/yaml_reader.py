"""Read YAML with limits, so that a small file cannot exhaust memory, time or the stack.

libyaml's composer recurses in C: 100,000 brackets overflow the stack. An alias or a merge key
repeats what it refers to, so that a kilobyte can describe billions of values. Both are found in the
parser's events, which take constant memory, before anything is built.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from headway.errors import ConfigError, shown

MAX_VALUES = 400_000
"""Values in a file, including those that aliases and merge keys repeat."""
MAX_DEPTH = 32
"""Lists and mappings inside each other."""
MAX_INTEGER = 2**63


class _InvalidScalar(ConstructorError):
    pass


class _Loader(yaml.CSafeLoader):
    """Reports an invalid scalar at its place. PyYAML raises the errors of `int` and `datetime`."""


def _checked(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def build(loader: Any, node: Any) -> Any:
        try:
            value = construct(loader, node)
        except (ValueError, KeyError, AttributeError, IndexError, OverflowError):
            tag = node.tag.rpartition(":")[2]
            problem = f"{shown(node.value)} is not a valid {tag}"
            raise _InvalidScalar(None, None, problem, node.start_mark) from None
        if isinstance(value, int) and abs(value) >= MAX_INTEGER:
            problem = f"{shown(node.value)} is out of range: an integer has at most 64 bits"
            raise _InvalidScalar(None, None, problem, node.start_mark)
        return value

    return build


for _kind in ("int", "float", "bool", "timestamp"):
    _tag = f"tag:yaml.org,2002:{_kind}"
    _Loader.add_constructor(_tag, _checked(SafeConstructor.yaml_constructors[_tag]))


def load(text: str, where: str) -> tuple[Any, Any]:
    """Return the document as nodes, which have line numbers, and as data."""
    try:
        _refuse_excess(text, where)
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            _refuse_repeated_keys(root, where)
            return root, None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _config_error(error, text, where) from None


def _config_error(error: yaml.YAMLError, text: str, where: str) -> ConfigError:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.encode()[: error.position].count(b"\n") + 1
        return ConfigError(f"invalid YAML: {error.reason}", where=f"{where}:{line}")
    mark = getattr(error, "problem_mark", None)
    place = f"{where}:{mark.line + 1}" if mark else where
    problem = getattr(error, "problem", None) or str(error)
    if "another document" in problem:
        return ConfigError(
            "more than one document in this file",
            where=place,
            hint="write each document to its own file, or remove '---'",
        )
    if isinstance(error, _InvalidScalar):
        hint = "use a smaller number, or quote it if it is text"
    else:
        hint = _remedy(problem, text, mark, getattr(error, "context_mark", None))
    return ConfigError(f"invalid YAML: {problem}", where=place, hint=hint)


def _remedy(problem: str, text: str, mark: Any, opened: Any) -> str:
    """Return what to do about a problem at `mark`, inside of what begins at `opened`."""
    if "cannot start any token" in problem:
        start = text[mark.index : mark.index + 1]
        tab = start == "\t"
        return "indent with spaces, not tabs" if tab else f"quote text that starts with {start!r}"
    if "tab character" in problem:
        return "indent with spaces, not tabs"
    if "expected ',' or" in problem:
        return f"close the bracket of line {opened.line + 1}"
    if "end of stream" in problem and opened:
        return f"close the quotation mark of line {opened.line + 1}"
    if "expected ':'" in problem and opened:
        return f"write 'key: value' in line {opened.line + 1}"
    return "check the indentation"


@dataclass(slots=True)
class _Value:
    """A scalar, or a collection with its content. An alias counts as the content that
    it repeats.
    """

    anchor: str | None
    values: int = 1
    depth: int = 0


def _refuse_excess(text: str, where: str) -> None:
    """Raise if the document is too deep or has too many values."""
    around, anchors, values = [_Value(None)], dict[str, _Value | None](), 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(_Value(event.anchor, depth=1))
            if event.anchor:
                anchors[event.anchor] = None  # it contains what follows
            values, depth = values + 1, 0
        elif isinstance(event, yaml.CollectionEndEvent | yaml.ScalarEvent | yaml.AliasEvent):
            value = _ended(event, around, anchors, where)
            around[-1].values += value.values
            around[-1].depth = max(around[-1].depth, value.depth + 1)
            values += 0 if isinstance(event, yaml.CollectionEndEvent) else value.values
            depth = value.depth
        else:
            continue  # of the stream, not of a value
        if len(around) - 1 + depth > MAX_DEPTH:
            problem = f"more than {MAX_DEPTH} lists and mappings inside each other"
            raise _refusal(event, where, problem, "close the brackets")
        if values > MAX_VALUES:
            problem = f"more than {MAX_VALUES:,} values, with those that aliases repeat"
            raise _refusal(event, where, problem, "describe many equal jobs with `arrivals`")


def _ended(
    event: Any, around: list[_Value], anchors: dict[str, _Value | None], where: str
) -> _Value:
    """Return the value that this event completes."""
    if isinstance(event, yaml.AliasEvent):
        found = anchors.get(event.anchor or "", _Value(None))  # the composer refuses an unknown one
        if found is None:
            problem = f"alias {shown(event.anchor)} is inside of what it refers to"
            raise _refusal(event, where, problem, "write the values instead of the alias")
        return found
    value = _Value(event.anchor) if isinstance(event, yaml.ScalarEvent) else around.pop()
    if value.anchor:
        anchors[value.anchor] = value
    return value


def _refusal(event: Any, where: str, problem: str, hint: str) -> ConfigError:
    return ConfigError(problem, where=f"{where}:{event.start_mark.line + 1}", hint=hint)


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
                    f"key {shown(key.value)} occurs twice: {both}",
                    where=f"{where}:{line}",
                    hint="merge the two entries",
                )
            lines[key.value] = line
