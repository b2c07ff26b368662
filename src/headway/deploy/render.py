"""Render the objects as a stream of YAML, a Kustomize base, or a Helm chart.

All three have the same objects, from the templates beside this file. In the chart, the values that
a user can choose are template expressions.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import yaml

from headway import __version__
from headway.deploy.crd import schema
from headway.errors import ConfigError

Plain = dict[str, Any]
PARTS = ("namespace", "crd", "priorityclass", "rbac", "operator")
"""In the order in which to apply them."""


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


CHOICES = {
    "image": "image",
    "replicas": "replicas",
    "cpu": "resources.cpu",
    "memory": "resources.memory",
    "most_memory": "resources.mostMemory",
}
"""Values of the chart: field of `Values`, and name in the chart."""
NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
RULES = (
    ("namespace", NAMESPACE, "use at most 63 lower-case letters, digits and '-'"),
    ("image", r"\S+", "for example registry.example/headway:1"),
)


def _template(name: str) -> str:
    return (files("headway.deploy") / "templates" / f"{name}.yaml").read_text("utf-8")


def objects(part: str, values: Values) -> list[Plain]:
    """Return the objects of a template, in which `$image` stands for the value `image`."""
    given = asdict(values) | {"version": __version__, "schema": schema()}
    known = {f"${name}": value for name, value in given.items()}
    return [_filled(each, known) for each in yaml.safe_load_all(_template(part))]


def _filled(node: Any, known: Plain) -> Any:
    if isinstance(node, dict):
        return {key: _filled(value, known) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(each, known) for each in node]
    return known.get(node, node)


def stream(values: Values) -> list[Plain]:
    """Return every object, in the order in which to apply them."""
    return [each for part in PARTS for each in objects(part, values)]


def kustomize(values: Values) -> dict[str, str]:
    """Return the files of a Kustomize base, by name."""
    return {f"{part}.yaml": text(objects(part, values)) for part in (*PARTS, "kustomization")}


def chart(values: Values) -> dict[str, str]:
    """Return the files of a Helm chart, by name, with these defaults."""
    words = {field: f"{{{{ .Values.{name} | quote }}}}" for field, name in CHOICES.items()}
    words["replicas"] = "{{ .Values.replicas }}"  # a number
    templates = Values(namespace="{{ .Release.Namespace | quote }}", **words)
    given = {k: yaml.safe_dump(v).partition("\n")[0] for k, v in asdict(values).items()}
    return {
        "Chart.yaml": text(objects("Chart", values)),
        "values.yaml": Template(_template("values")).substitute(given),
        "crds/trainingjobs.yaml": text(objects("crd", templates)),
        **{
            f"templates/{part}.yaml": _unquoted(text(objects(part, templates)))
            for part in ("priorityclass", "rbac", "operator")  # Helm creates the namespace
        },
    }


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
            raise ConfigError(f"{value!r} is not a valid {name}", where=f"--{name}", hint=hint)
    return values


class _WithoutAnchors(yaml.SafeDumper):
    """Writes repeated objects in full, for readability."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def text(found: Iterable[Plain]) -> str:
    return yaml.dump_all(found, Dumper=_WithoutAnchors, sort_keys=False, width=100)


def _unquoted(body: str) -> str:
    """Remove the quotes that YAML adds to template expressions."""
    return re.sub(r"'(\{\{ [^}]* \}\})'", r"\1", body)
