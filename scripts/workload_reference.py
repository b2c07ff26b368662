"""The reference page of workload files, generated from their schema."""

from collections.abc import Iterator
from typing import Any

from headway.spec.workload import Workload

Schema = dict[str, Any]
MANIFEST = "TrainingJobSpec"
HEAD = """# Workload

<!-- Generated from the schema by scripts/generate; do not edit. -->

The file of `headway run`, `headway simulate` and `headway submit`. Each job is a built-in model, a
manifest, or only a profile, which can be simulated but not run. An amount is a number, or has a
unit: seconds (`90s`, `10m`, `2h`), cores (`500m`), bytes (`4Gi`). Values in *italics* are
defaults.

```yaml
apiVersion: headway.dev/v1alpha1
kind: Workload
nodes: [{name: a, cpu: 2, memory: 4Gi}]
jobs:
  - {name: j1, at: 0, model: vae-torch}
  - {name: j2, at: 40s, profile: {work: 90, demand: 0.5, steps: 900}, knows: {after: 20%}}
arrivals: {uniform: [0, 300], jobs: 20, models: any}
```
"""


def page() -> str:
    schema = Workload.model_json_schema()
    sections = ["\n".join(_section(name, node)) for name, node in _objects(schema)]
    return HEAD + "\n" + "\n\n".join(sections) + "\n"


def _objects(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Return each object with its name, in the order in which the fields name them."""
    known, waiting = schema["$defs"], [("Workload", schema)]
    named = {MANIFEST}
    while waiting:
        name, node = waiting.pop(0)
        yield name, node
        for inner in (n for field in node["properties"].values() for n in _names(field)):
            if inner not in named:
                named.add(inner)
                waiting.append((inner, known[inner]))


def _names(node: Any) -> Iterator[str]:
    """Return the names of the objects that a field can hold."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        for inner in node.values():
            yield from _names(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _names(inner)


def _section(name: str, node: Schema) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{node['description']}\n"
    yield "| field | type | description |"
    yield "|---|---|---|"
    for field, inside in node["properties"].items():
        needed = " (required)" if field in node.get("required", ()) else ""
        shown = "" if inside.get("default") in (None, "", [], {}) else _default(inside["default"])
        text = " ".join(inside["description"].split()).replace("|", r"\|")
        yield f"| `{field}`{needed} | {_type(inside)}{shown} | {text} |"


def _default(value: Any) -> str:
    if isinstance(value, dict):
        return ""  # the defaults of the object
    values = value if isinstance(value, list) else [value]
    return f", *{', '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in values)}*"


def _type(node: Schema) -> str:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return "[spec](trainingjob.md#spec)" if name == MANIFEST else f"[{name}](#{name.lower()})"
    if "anyOf" in node:
        kinds = (_type(n) for n in node["anyOf"] if n.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in node or "const" in node:
        return ", ".join(map(str, node.get("enum", [node.get("const")])))
    if node.get("x-kubernetes-int-or-string"):
        return "amount"
    if node.get("type") == "array":
        inner = node.get("items") or node["prefixItems"][0]
        return f"{'two' if 'prefixItems' in node else 'list'} of {_type(inner)}"
    if isinstance(node.get("additionalProperties"), dict):
        return f"map to {_type(node['additionalProperties'])}"
    return str(node.get("type", "anything"))
