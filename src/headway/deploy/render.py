"""Render the objects as a stream of YAML, a Kustomize base, or a Helm chart.

All three have the same objects, from the templates beside this file. In the chart, the values that
a user can choose are template expressions.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import yaml

from headway import __version__
from headway.deploy.crd import schema
from headway.errors import ConfigError

Plain = dict[str, Any]
CLUSTER = ("crd", "cluster")
"""Objects of the whole cluster, which an administrator installs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values that an installation can choose."""

    namespace: str = "headway"
    image: str = f"headway:{__version__}"
    replicas: int | str = 2
    """One is the leader, the others are standby."""
    cpu: str = "100m"
    memory: str = "128Mi"
    most_memory: str = "512Mi"
    policy: str = "headway"
    observe_only: bool | str = False
    watch_namespace: str = ""
    """Only the jobs of this namespace; "": of all."""
    disruption_budget: bool | str = True
    network_policy: bool | str = True
    pull_secrets: Any = field(default_factory=list)
    node_selector: Any = field(default_factory=dict)
    tolerations: Any = field(default_factory=list)
    affinity: Any = field(default_factory=dict)
    agent_namespace: str = "headway-agent"
    """Of the node agents; "": there are none. An operator of one namespace has none."""
    agent_logs: str = "/var/log/pods"
    agent_cpu: str = "10m"
    agent_memory: str = "48Mi"
    agent_most_memory: str = "128Mi"
    agent_tolerations: Any = field(default_factory=lambda: [{"operator": "Exists"}])


CHOICES = {
    "image": "image",
    "replicas": "replicas",
    "cpu": "resources.cpu",
    "memory": "resources.memory",
    "most_memory": "resources.mostMemory",
    "policy": "policy",
    "observe_only": "observeOnly",
    "watch_namespace": "watchNamespace",
    "disruption_budget": "podDisruptionBudget.enabled",
    "network_policy": "networkPolicy.enabled",
    "pull_secrets": "imagePullSecrets",
    "node_selector": "nodeSelector",
    "tolerations": "tolerations",
    "affinity": "affinity",
    "agent_namespace": "agent.namespace",
    "agent_logs": "agent.logs",
    "agent_cpu": "agent.cpu",
    "agent_memory": "agent.memory",
    "agent_most_memory": "agent.mostMemory",
    "agent_tolerations": "agent.tolerations",
}
"""Values of the chart: field of `Values`, and name in the chart."""
ONLY_IF = {
    "cluster": "not .Values.watchNamespace",
    "rbac-cluster": "not .Values.watchNamespace",
    "rbac-namespace": ".Values.watchNamespace",
    "disruption-budget": ".Values.podDisruptionBudget.enabled",
    "network-policy": ".Values.networkPolicy.enabled",
    "agent": "and .Values.agent.namespace (not .Values.watchNamespace)",
}
"""Files of the chart that not every release has."""
NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
RULES = (
    ("namespace", NAMESPACE, "use at most 63 lower-case letters, digits and '-'"),
    ("image", r"\S+", "for example registry.example/headway:1"),
    ("agent_namespace", f"({NAMESPACE})?", "use at most 63 lower-case letters, digits and '-'"),
    ("watch_namespace", f"({NAMESPACE})?", "use at most 63 lower-case letters, digits and '-'"),
)


def _template(name: str) -> str:
    return (files("headway.deploy") / "templates" / f"{name}.yaml").read_text("utf-8")


def objects(part: str, values: Values) -> list[Plain]:
    """Return the objects of a template, in which `$image` stands for the value `image`."""
    given = asdict(values) | {"version": __version__}
    if part == "crd":
        given["schema"] = schema()
    known = {f"${name}": _text(value) for name, value in given.items()}
    return [_filled(each, known) for each in yaml.load_all(_template(part), yaml.CSafeLoader)]


def _text(value: Any) -> Any:
    """A variable of a container is a string."""
    return str(value).lower() if isinstance(value, bool) else value


def _filled(node: Any, known: Plain) -> Any:
    if isinstance(node, dict):
        return {key: _filled(value, known) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(each, known) for each in node]
    return known.get(node, node)


def _parts(values: Values) -> tuple[str, ...]:
    """Return the parts in the order in which they must be applied."""
    wanted = {
        "operator": True,
        "disruption-budget": values.disruption_budget,
        "network-policy": values.network_policy,
        "agent": values.agent_namespace and not values.watch_namespace,
    }
    more = [part for part, so in wanted.items() if so]
    if values.watch_namespace:
        return ("rbac", "rbac-namespace", *more)
    return ("namespace", *CLUSTER, "rbac", "rbac-cluster", *more)


def stream(values: Values, *, only_cluster: bool = False) -> list[Plain]:
    """Return every object, or those of the whole cluster, in the order in which to apply them."""
    parts = CLUSTER if only_cluster else _parts(values)
    return [each for part in parts for each in objects(part, values)]


def kustomize(values: Values) -> dict[str, str]:
    """Return the files of a Kustomize base, by name."""
    found = {f"{part}.yaml": text(objects(part, values)) for part in _parts(values)}
    (base,) = objects("kustomization", values)
    return found | {"kustomization.yaml": text([base | {"resources": list(found)}])}


def chart(values: Values) -> dict[str, str]:
    """Return the files of a Helm chart, by name, with these defaults."""
    plain, words = asdict(values), {}
    for own, name in CHOICES.items():
        how = "quote" if isinstance(plain[own], str | bool) else "toJson"
        words[own] = f"{{{{ .Values.{name} | {how} }}}}"
    templates = Values(namespace="{{ .Release.Namespace | quote }}", **words)
    given = {
        k: yaml.safe_dump(v, default_flow_style=True).partition("\n")[0] for k, v in plain.items()
    }
    parts = (
        "cluster", "rbac", "rbac-cluster", "rbac-namespace", "operator", "disruption-budget",
        "network-policy", "agent", "hook",
    )  # fmt: skip
    return {
        "Chart.yaml": text(objects("Chart", values)),
        "values.yaml": Template(_template("values")).substitute(given),
        "values.schema.json": json.dumps(_values_schema(plain), indent=2) + "\n",
        "crds/trainingjobs.yaml": text(objects("crd", templates)),
        "templates/NOTES.txt": (files("headway.deploy") / "templates" / "NOTES.txt").read_text(),
        **{f"templates/{part}.yaml": _conditional(part, templates) for part in parts},
    }


def _conditional(part: str, templates: Values) -> str:
    """A file of the chart. Helm creates the namespace."""
    body = _unquoted(text(objects(part, templates)))
    return f"{{{{- if {ONLY_IF[part]} }}}}\n{body}{{{{- end }}}}\n" if part in ONLY_IF else body


_TYPES = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object"}


def _values_schema(plain: Plain) -> Plain:
    """A misspelt value of the chart is refused."""
    top: Plain = {}
    for own, name in CHOICES.items():
        inner, place = name.split("."), top
        for part in inner[:-1]:
            place = place.setdefault(part, _closed({}))["properties"]
        place[inner[-1]] = {"type": _TYPES[type(plain[own])]}
    top["replicas"]["minimum"] = 1
    top["image"]["minLength"] = 1
    top["global"] = {"type": "object"}  # Helm passes it to every chart
    return {"$schema": "https://json-schema.org/draft-07/schema#", **_closed(top)}


def _closed(properties: Plain) -> Plain:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def write(files: dict[str, str], folder: Path) -> list[Path]:
    """Write the files; other files in the directory stay."""
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
    return [folder / name for name in files]


def check(values: Values) -> Values:
    """Raise if the namespace or the image is invalid."""
    for name, pattern, hint in RULES:
        value = getattr(values, name)
        if not re.fullmatch(pattern, value):
            where = "--" + name.replace("_", "-")
            raise ConfigError(f"{value!r} is not a valid {name}", where=where, hint=hint)
    return values


class _WithoutAnchors(yaml.CSafeDumper):
    """Writes repeated objects in full, for readability."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def text(found: Iterable[Plain]) -> str:
    return yaml.dump_all(found, Dumper=_WithoutAnchors, sort_keys=False, width=100)


def _unquoted(body: str) -> str:
    """Remove the quotes that YAML adds to template expressions."""
    return re.sub(r"'(\{\{ [^}]* \}\})'", r"\1", body)
