"""Check that a schema is structural by the rules of apiextensions.k8s.io/v1, as an API server needs
to prune and default values. The real tier asks a server.
"""

TYPES = {"object", "array", "string", "integer", "number", "boolean"}
FORBIDDEN = {
    "$ref", "$defs", "allOf", "anyOf", "oneOf", "not", "const", "title", "definitions",
    "dependencies", "patternProperties", "id", "uniqueItems", "prefixItems", "examples",
    "deprecated", "readOnly", "writeOnly", "discriminator",
}  # fmt: skip


def faults(schema, at=""):
    """Return the faults of a schema, each with its place."""
    found = [f"{at}: {word} is not allowed" for word in sorted(FORBIDDEN & set(schema))]
    untyped = schema.get("x-kubernetes-int-or-string")
    if untyped and "type" in schema:
        found.append(f"{at}: an int-or-string has no type")
    if not untyped and schema.get("type") not in TYPES:
        found.append(f"{at}: no type")
    if "properties" in schema and "additionalProperties" in schema:
        found.append(f"{at}: both properties and additionalProperties")
    if schema.get("type") == "array" and "items" not in schema:
        found.append(f"{at}: an array without items")
    if not isinstance(schema.get("exclusiveMinimum", True), bool):
        found.append(f"{at}: exclusiveMinimum is a boolean here")
    found += _keys(schema, at) + _default(schema, at) + _rules(schema, at)
    for name, inside in _inside(schema):
        found += faults(inside, f"{at}.{name}")
    return found


def _inside(schema):
    yield from schema.get("properties", {}).items()
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield word, schema[word]


def _keys(schema, at):
    """Those that tell the entries of a list apart: required, or filled in."""
    if schema.get("x-kubernetes-list-type") != "map":
        return []
    entry = schema["items"]
    sure = set(entry.get("required", ())) | {
        k for k, v in entry["properties"].items() if "default" in v
    }
    keys = schema["x-kubernetes-list-map-keys"]
    return [f"{at}: the key {k} may be missing" for k in keys if k not in sure]


def _default(schema, at):
    if "default" not in schema:
        return []
    kinds = {
        "object": dict, "array": list, "string": str, "integer": int,
        "number": (int, float), "boolean": bool, None: (int, str),
    }  # fmt: skip
    given = schema["default"]
    if not isinstance(given, kinds[schema.get("type")]):
        return [f"{at}: the default {given!r} is of another type"]
    if "enum" in schema and given not in schema["enum"]:
        return [f"{at}: the default {given!r} is none of the enum"]
    missing = set(schema.get("required", ())) - set(given) if isinstance(given, dict) else ()
    return [f"{at}: the default lacks {k}" for k in missing]


def _rules(schema, at):
    found = []
    for rule in schema.get("x-kubernetes-validations", ()):
        place = schema
        for part in rule["fieldPath"].removeprefix(".").split("."):
            place = place.get("properties", {}).get(part)
            if place is None:
                found.append(f"{at}: a rule blames {rule['fieldPath']}, which is not there")
                break
    return found
