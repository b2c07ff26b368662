"""The custom resource `TrainingJob`, made from the models of the manifest.

An API server takes a *structural* schema: every node says its type, nothing is referred to, nothing
is one of several. This is the translation from what pydantic says.
"""

from typing import Any

from headway.spec.manifest import GROUP, NAME, PLURAL, VERSION, TrainingJob
from headway.spec.status import TrainingJobStatus

Schema = dict[str, Any]

COLUMNS = (
    ("Phase", "string", ".status.phase", 0),
    ("Replicas", "integer", ".status.replicas", 0),
    ("Priority", "integer", ".spec.priority", 1),
    ("Started", "date", ".status.startTime", 0),
    ("Finished", "date", ".status.finishTime", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Reason", "string", ".status.reason", 1),
)
"""What `kubectl get tj` shows; those of priority 1 with `-o wide`."""


def custom_resource() -> Schema:
    """The whole definition, as it is applied."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "TrainingJob",
                "listKind": "TrainingJobList",
                "plural": PLURAL,
                "singular": "trainingjob",
                "shortNames": ["tj"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema()},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.elasticReplicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": n, "type": t, "jsonPath": p} | ({"priority": q} if q else {})
                        for n, t, p, q in COLUMNS
                    ],
                }
            ],
        },
    }


def schema() -> Schema:
    found = structural(TrainingJob.model_json_schema())
    known = found["properties"]
    for word in ("apiVersion", "kind"):  # the server has checked them before it looks here
        known[word] = {"type": "string", "description": known[word]["description"]}
    # The server checks the rest of it by itself, and lets nobody else do so.
    name = {k: known["metadata"]["properties"]["name"][k] for k in ("type", "pattern", "maxLength")}
    known["metadata"] = {"type": "object", "properties": {"name": name}}
    # A task that says nothing can be simulated, but no cluster can run it.
    known["spec"]["required"], found["required"] = ["tasks"], ["spec"]
    known["spec"].pop("default")
    known["spec"]["properties"]["tasks"] |= _keyed_by("name")
    known["status"] = structural(TrainingJobStatus.model_json_schema())
    known["status"]["properties"]["conditions"] |= _keyed_by("type")
    return found


def structural(found: Schema) -> Schema:
    """What pydantic says, in the words that an API server takes."""
    return _node({k: v for k, v in found.items() if k != "$defs"}, found.get("$defs", {}))


def _keyed_by(key: str) -> Schema:
    """No two of one key; and who applies one of them leaves the others as they are."""
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
        free = not isinstance(inside, dict)
        kept |= (
            {"x-kubernetes-preserve-unknown-fields": True}
            if free
            else {"additionalProperties": _node(inside, defs)}
        )
    return kept | _default(found, kept)


_KEPT = frozenset(
    {
        "type", "description", "enum", "format", "pattern", "minimum", "maximum", "minLength",
        "maxLength", "minItems", "maxItems", "required", "x-kubernetes-int-or-string",
        "x-kubernetes-validations",
    }
)  # fmt: skip


def _resolved(found: Schema, defs: Schema) -> Schema:
    """Without reference, and without the word that a thing may be left out: here it just is."""
    while "$ref" in found or "anyOf" in found:
        if "$ref" in found:
            inside = defs[found["$ref"].rpartition("/")[2]]
        else:
            (inside,) = (b for b in found["anyOf"] if b.get("type") != "null")
        found = inside | {k: v for k, v in found.items() if k not in ("$ref", "anyOf")}
    return found


def _default(found: Schema, kept: Schema) -> Schema:
    """What the server fills in. It leaves out what says nothing: no text, no list, no amount."""
    if "properties" in kept:
        some = any("default" in v for v in kept["properties"].values())
        return {"default": {}} if some and found.get("default") is not None else {}
    given = found.get("default")
    if given in (None, "", [], {}) or kept.get("type") == "array" or _is_zero(given):
        return {}
    return {"default": int(given) if isinstance(given, float) and given == int(given) else given}


def _is_zero(given: Any) -> bool:
    return isinstance(given, float) and given == 0.0
