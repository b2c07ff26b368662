"""The Kubernetes objects of an installation."""

from dataclasses import dataclass
from typing import Any

from headway import __version__
from headway.deploy.rbac import NAME

Plain = dict[str, Any]


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


def namespace(values: Values) -> list[Plain]:
    restricted = {**labels(), "pod-security.kubernetes.io/enforce": "restricted"}
    meta = {"name": values.namespace, "labels": restricted}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}]


def operator(values: Values) -> list[Plain]:
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": values.namespace, "labels": labels()},
            "spec": {
                "replicas": values.replicas,
                "selector": {"matchLabels": labels()},
                "template": {"metadata": {"labels": labels()}, "spec": _pod(values)},
            },
        }
    ]


def _pod(values: Values) -> Plain:
    return {
        "serviceAccountName": NAME,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels()},
            }
        ],
        "containers": [_container(values)],
        "volumes": [
            {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }


def _container(values: Values) -> Plain:
    return {
        "name": "operator",
        "image": values.image,
        "command": ["headway", "operator"],
        "env": [
            {"name": "HEADWAY_DATA", "value": "/data"},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - an emptyDir of the pod
            _field("POD_NAME", "metadata.name"),
            _field("POD_NAMESPACE", "metadata.namespace"),
        ],
        "resources": {
            "requests": {"cpu": values.cpu, "memory": values.memory},
            "limits": {"memory": values.most_memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of the pod
        ],
    }


def _field(name: str, path: str) -> Plain:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "operator"}
