"""The reference page of the custom resource, generated from its schema."""

from collections.abc import Iterator
from typing import Any

from headway.deploy.crd import schema

Schema = dict[str, Any]

HEAD = """# TrainingJob

<!-- Generated from the schema by scripts/generate; do not edit. -->

One file for every backend: in a workload (`manifest: job.yaml`) with `headway run` and
`headway simulate`, and with `kubectl apply` on a cluster (see
[the guide](../guide/kubernetes.md)). A backend refuses a job that uses a field which it does not
support. An amount is a whole number, or a string with a unit: `500m` or `"0.5"` cores, `512Mi`,
`90s`. (A bare `0.5` needs quotes on a cluster.)

Values in *italics* are defaults.
"""


def page() -> str:
    sections = ["\n".join(_section(name, node)) for name, node in _objects(schema(), "")]
    return HEAD + "\n" + "\n\n".join(sections) + "\n"


def _objects(node: Schema, at: str) -> Iterator[tuple[str, Schema]]:
    """Return every object that has fields, with its path."""
    for name, inside in node.get("properties", {}).items():
        path = f"{at}.{name}" if at else name
        if inside.get("type") == "array":
            inside, path = inside["items"], f"{path}[]"  # noqa: PLW2901 - its entries
        if "properties" in inside and path != "metadata":
            yield path, inside
            yield from _objects(inside, path)


def _section(name: str, node: Schema) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{node['description']}\n"
    yield "| field | type | description |"
    yield "|---|---|---|"
    for field, inside in node["properties"].items():
        needed = " (required)" if field in node.get("required", ()) else ""
        yield f"| `{field}`{needed} | {_kind(inside)} | {_escaped(inside['description'])} |"
    rules = node.get("x-kubernetes-validations", ())
    if rules:
        yield "\nRules across fields:\n"
        yield "\n".join(f"- `{r['fieldPath'][1:]}`: {r['message']}" for r in rules)


def _kind(node: Schema) -> str:
    """Return the type of a field, with its bounds and its default."""
    default = node.get("default")
    if "enum" in node:
        return ", ".join(f"*{v}*" if v == default else str(v) for v in node["enum"])
    shown = f", *{str(default).lower()}*" if default not in (None, {}) else ""
    return _type(node) + _bounds(node) + shown


def _type(node: Schema) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "amount"
    if node["type"] == "array":
        return f"list of {_type(node['items'])}s"
    if isinstance(node.get("additionalProperties"), dict):
        return f"map to {_type(node['additionalProperties'])}"
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return "anything"
    return "time" if node.get("format") == "date-time" else str(node["type"])


def _bounds(node: Schema) -> str:
    least, most = node.get("minimum"), node.get("maximum")
    if node.get("x-kubernetes-int-or-string") or (least is None and most is None):
        return ""
    if most is not None:
        return f" from {least:g} to {most:g}"
    return f" {'above' if node.get('exclusiveMinimum') else 'from'} {least:g}"


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")
