"""The schema of the custom resource `TrainingJob`, generated from the models of the manifest.

An API server needs a *structural* schema: every node has a type, without references and unions.
This module converts pydantic's schema to it.
"""

from typing import Any

from headway.spec.manifest import TrainingJob
from headway.spec.status import TrainingJobStatus

Schema = dict[str, Any]


def schema() -> Schema:
    whole = structural(TrainingJob.model_json_schema())
    fields = whole["properties"]
    for field in ("apiVersion", "kind"):  # checked by the server itself
        fields[field] = {"type": "string", "description": fields[field]["description"]}
    # A schema may restrict the name only; the server checks the other metadata.
    name = fields["metadata"]["properties"]["name"]
    name = {k: name[k] for k in ("type", "pattern", "maxLength")}
    fields["metadata"] = {"type": "object", "properties": {"name": name}}
    # A job without tasks can be simulated, but not run on a cluster.
    fields["spec"]["required"], whole["required"] = ["tasks"], ["spec"]
    fields["spec"].pop("default")
    fields["spec"]["properties"]["tasks"] |= _keyed_by("name")
    fields["status"] = structural(TrainingJobStatus.model_json_schema())
    fields["status"]["properties"]["conditions"] |= _keyed_by("type")
    return whole


def structural(schema: Schema) -> Schema:
    """Convert pydantic's schema to a structural one."""
    return _node({k: v for k, v in schema.items() if k != "$defs"}, schema.get("$defs", {}))


def _keyed_by(key: str) -> Schema:
    """Make a list a map by this key: keys are unique, and server-side apply merges entries."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _node(found: Schema, defs: Schema) -> Schema:
    found = _resolved(found, defs)
    kept = {k: v for k, v in found.items() if k in _KEPT}
    if "description" in kept:
        kept["description"] = " ".join(kept["description"].split())
    if "exclusiveMinimum" in found:
        kept |= {"minimum": found["exclusiveMinimum"], "exclusiveMinimum": True}
    if "items" in found:
        kept["items"] = _node(found["items"], defs)
    if "properties" in found:
        kept["properties"] = {k: _node(v, defs) for k, v in found["properties"].items()}
    elif "additionalProperties" in found:
        inside = found["additionalProperties"]
        if isinstance(inside, dict):
            kept["additionalProperties"] = _node(inside, defs)
        else:
            kept["x-kubernetes-preserve-unknown-fields"] = True
    return kept | _default(found, kept)


_KEPT = frozenset(
    {
        "type", "description", "enum", "format", "pattern", "minimum", "maximum", "minLength",
        "maxLength", "minItems", "maxItems", "required", "x-kubernetes-int-or-string",
        "x-kubernetes-validations",
    }
)  # fmt: skip


def _resolved(found: Schema, defs: Schema) -> Schema:
    """Replace references, and `X or null` by X."""
    while "$ref" in found or "anyOf" in found:
        if "$ref" in found:
            inside = defs[found["$ref"].rpartition("/")[2]]
        else:
            (inside,) = (b for b in found["anyOf"] if b.get("type") != "null")
        found = inside | {k: v for k, v in found.items() if k not in ("$ref", "anyOf")}
    return found


def _default(found: Schema, kept: Schema) -> Schema:
    """Return the default that the server fills in; empty texts, lists and zeros have none."""
    if "properties" in kept:
        some = any("default" in v for v in kept["properties"].values())
        return {"default": {}} if some and found.get("default") is not None else {}
    given = found.get("default")
    if isinstance(given, float):
        given = int(given) if given and given == int(given) else given or None
    if given in (None, "", [], {}) or kept.get("type") == "array":
        return {}
    return {"default": given}
