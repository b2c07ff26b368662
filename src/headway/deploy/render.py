"""Render the objects as a stream of YAML, a Kustomize base, or a Helm chart.

All three have the same objects. In the chart, the values that a user can choose are template
expressions.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from headway import __version__
from headway.deploy import objects
from headway.deploy.crd import custom_resource
from headway.deploy.objects import Values
from headway.deploy.rbac import rights
from headway.errors import ConfigError

Plain = dict[str, Any]

PARTS: dict[str, Callable[[Values], list[Plain]]] = {
    "namespace": objects.namespace,
    "crd": lambda _: [custom_resource()],
    "rbac": lambda values: rights(values.namespace, objects.labels()),
    "operator": objects.operator,
}
"""In the order in which to apply them."""

CHOICES = {
    "image": ("image", "Image of the operator, with headway[kubernetes] installed."),
    "replicas": ("replicas", "Replicas: one leader, the others standby."),
    "cpu": ("resources.cpu", "CPU request; there is no CPU limit."),
    "memory": ("resources.memory", "Memory request."),
    "most_memory": ("resources.mostMemory", "Memory limit."),
}
"""Values of the chart: field of `Values`, name in the chart, and description."""


CHART = {
    "apiVersion": "v2",
    "name": "headway",
    "description": "A resource manager for deep-learning training jobs",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.33.0-0",
}


def stream(values: Values) -> list[Plain]:
    """Return every object, in the order in which to apply them."""
    return [each for part in PARTS.values() for each in part(values)]


def kustomize(values: Values) -> dict[str, str]:
    """Return the files of a Kustomize base, by name."""
    base = {f"{name}.yaml": text(part(values)) for name, part in PARTS.items()}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(base),
    }
    return base | {"kustomization.yaml": text([kustomization])}


def chart(values: Values) -> dict[str, str]:
    """Return the files of a Helm chart, by name, with these default values. Helm creates the
    namespace.
    """
    words = {field: f"{{{{ .Values.{name} | quote }}}}" for field, (name, _) in CHOICES.items()}
    words["replicas"] = "{{ .Values.replicas }}"  # a number
    templates = Values(namespace="{{ .Release.Namespace | quote }}", **words)
    return {
        "Chart.yaml": text([CHART]),
        "values.yaml": _values_file(values),
        "crds/trainingjobs.yaml": text(PARTS["crd"](templates)),
        **{
            f"templates/{name}.yaml": _unquoted(text(PARTS[name](templates)))
            for name in ("rbac", "operator")
        },
    }


def as_list(values: Values) -> Plain:
    return {"apiVersion": "v1", "kind": "List", "items": stream(values)}


def write_files(values: Values, folder: Path | None, *, helm: bool = False) -> list[Path]:
    """Write a Kustomize base, or a Helm chart, into this directory."""
    if folder is None:
        raise ConfigError("--helm writes several files", where="--helm", hint="add --out DIRECTORY")
    return write(chart(values) if helm else kustomize(values), folder)


def write(files: dict[str, str], folder: Path) -> list[Path]:
    """Write the files; other files in the directory stay."""
    written = []
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
        written.append(path)
    return written


def check(values: Values) -> Values:
    """Raise if the namespace or the image is invalid."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", values.namespace):
        raise ConfigError(
            f"{values.namespace!r} is not a valid namespace",
            where="--namespace",
            hint="use at most 63 lower-case letters, digits and '-'",
        )
    if not re.fullmatch(r"\S+", values.image):
        raise ConfigError(
            f"{values.image!r} is not a valid image",
            where="--image",
            hint="for example registry.example/headway:1",
        )
    return values


class _WithoutAnchors(yaml.SafeDumper):
    """Writes repeated objects in full, for readability."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def text(found: Iterable[Plain]) -> str:
    documents = (
        yaml.dump(each, Dumper=_WithoutAnchors, sort_keys=False, width=100) for each in found
    )
    return "---\n".join(documents)


def _unquoted(body: str) -> str:
    """Remove the quotes that YAML adds to template expressions."""
    return re.sub(r"'(\{\{ [^}]* \}\})'", r"\1", body)


def _values_file(values: Values) -> str:
    lines: list[str] = []
    for field, (name, about) in CHOICES.items():
        group, _, key = name.rpartition(".")
        if group and f"{group}:" not in lines:
            lines.append(f"{group}:")
        indent = "  " if group else ""
        given = yaml.safe_dump(getattr(values, field)).partition("\n")[0]
        lines += [f"{indent}# {about}", f"{indent}{key}: {given}"]
    return "\n".join(lines) + "\n"
