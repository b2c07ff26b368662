"""The page of the custom resource, for people: every field, from the schema itself."""

from collections.abc import Iterator
from typing import Any

from headway.deploy.crd import schema

Schema = dict[str, Any]

HEAD = """# TrainingJob

<!-- Made from the schema by scripts/generate; a test compares. -->

One file for every backend: in a workload (`manifest: job.yaml`) with `headway run` and
`headway simulate`, and with `kubectl apply` on a cluster; [the guide](../guide/kubernetes.md) says
how. What a backend cannot do it refuses by name. An amount is a whole number, or a string with
its unit: `500m` or `"0.5"` cores, `512Mi`, `90s`. (On a machine a bare `0.5` will do too; a cluster
wants the quotes.)

A word in *italics* is filled in where it is left out.
"""


def page() -> str:
    sections = ["\n".join(_section(name, node)) for name, node in _objects(schema(), "")]
    return HEAD + "\n" + "\n\n".join(sections) + "\n"


def _objects(node: Schema, at: str) -> Iterator[tuple[str, Schema]]:
    """Every object that has fields, by the way to it."""
    for name, inside in node.get("properties", {}).items():
        way = f"{at}.{name}" if at else name
        if inside.get("type") == "array":
            inside, way = inside["items"], f"{way}[]"  # noqa: PLW2901 - its entries
        if "properties" in inside and way != "metadata":
            yield way, inside
            yield from _objects(inside, way)


def _section(name: str, node: Schema) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{node['description']}\n"
    yield "| field | type | |"
    yield "|---|---|---|"
    for field, inside in node["properties"].items():
        needed = " (required)" if field in node.get("required", ()) else ""
        yield f"| `{field}`{needed} | {_kind(inside)} | {_escaped(inside['description'])} |"
    rules = node.get("x-kubernetes-validations", ())
    if rules:
        yield "\nAnd what crosses fields:\n"
        yield "\n".join(f"- `{r['fieldPath'][1:]}`: {r['message']}" for r in rules)


def _kind(node: Schema) -> str:
    """What may be written there, and what it is if nothing is."""
    given = node.get("default")
    if "enum" in node:
        return ", ".join(f"*{v}*" if v == given else str(v) for v in node["enum"])
    filled = f", *{str(given).lower()}*" if given not in (None, {}) else ""
    return _type(node) + _bounds(node) + filled


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
