"""The objects as files: a stream to apply, a Kustomize base, a Helm chart.

All three are made from the same objects. In the chart, what a user may choose stands as a
template's word instead of a value; nothing else differs.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from headway import __version__
from headway.deploy import objects
from headway.deploy.objects import Values
from headway.errors import ConfigError

Plain = dict[str, Any]

PARTS: dict[str, Callable[[Values], list[Plain]]] = {
    "namespace": objects.namespace,
    "crd": lambda _: objects.crd(),
    "rbac": objects.rbac,
    "operator": objects.operator,
}
"""In the order in which they must come."""

CHOICES = {
    "image": ("image", "The image of the operator: one that has headway[kubernetes] in it."),
    "replicas": ("replicas", "One leads, the others wait for its lease."),
    "cpu": ("resources.cpu", "What it asks for; it is not held to it."),
    "memory": ("resources.memory", "What it asks for."),
    "most_memory": ("resources.mostMemory", "The most that it may take."),
}
"""What a chart lets a user choose: the field of `Values`, its name there, and a word on it."""


def stream(values: Values) -> list[Plain]:
    """Every object, in the order in which to apply them."""
    return [made for part in PARTS.values() for made in part(values)]


def kustomize(values: Values) -> dict[str, str]:
    """The files of a base, by name."""
    base = {f"{name}.yaml": text(part(values)) for name, part in PARTS.items()}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(base),
    }
    return base | {"kustomization.yaml": text([kustomization])}


def chart(values: Values) -> dict[str, str]:
    """The files of a chart, by name; the values are what it starts from. Its namespace is the
    release's: helm makes it.
    """
    words = {field: f"{{{{ .Values.{name} | quote }}}}" for field, (name, _) in CHOICES.items()}
    words["replicas"] = "{{ .Values.replicas }}"  # a number
    templates = Values(namespace="{{ .Release.Namespace | quote }}", **words)
    return {
        "Chart.yaml": text(
            [
                {
                    "apiVersion": "v2",
                    "name": "headway",
                    "description": "A resource manager for deep-learning training jobs",
                    "type": "application",
                    "version": __version__,
                    "appVersion": __version__,
                    "kubeVersion": ">=1.33.0-0",
                }
            ]
        ),
        "values.yaml": _chosen(values),
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
    """Put them there; what else is there stays."""
    written = []
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
        written.append(path)
    return written


def check(values: Values) -> Values:
    """What a user gave, before a cluster refuses it less kindly."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", values.namespace):
        raise ConfigError(
            f"{values.namespace!r} cannot be a namespace",
            where="--namespace",
            hint="use small letters, digits and '-', at most 63",
        )
    if not re.fullmatch(r"\S+", values.image):
        raise ConfigError(
            f"{values.image!r} cannot be an image",
            where="--image",
            hint="for example registry.example/headway:1",
        )
    return values


class _Whole(yaml.SafeDumper):
    """No anchors: people read these files."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def text(found: Iterable[Plain]) -> str:
    whole = [yaml.dump(made, Dumper=_Whole, sort_keys=False, width=100) for made in found]
    return "---\n".join(whole)


def _unquoted(body: str) -> str:
    """YAML quotes a template's braces; in a chart they stand as they are."""
    return re.sub(r"'(\{\{ [^}]* \}\})'", r"\1", body)


def _chosen(values: Values) -> str:
    lines: list[str] = []
    for field, (name, about) in CHOICES.items():
        group, _, key = name.rpartition(".")
        if group and f"{group}:" not in lines:
            lines.append(f"{group}:")
        indent = "  " if group else ""
        given = yaml.safe_dump(getattr(values, field)).partition("\n")[0]
        lines += [f"{indent}# {about}", f"{indent}{key}: {given}"]
    return "\n".join(lines) + "\n"
