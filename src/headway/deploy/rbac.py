"""RBAC of the operator: the least it needs; no secrets, no node proxies, no logs."""

from typing import Any

from headway.spec.manifest import GROUP, PLURAL

NAME = "headway"
LEASE = "headway"
"""Name of the lease of the leader election."""

Rule = dict[str, Any]

READ = ["get", "list", "watch"]


def _may(verbs: list[str], *resources: str, group: str = "", **more: Any) -> Rule:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **more}


EVERYWHERE = (
    _may([*READ, "create", "delete", "patch"], "pods"),
    _may(["create"], "pods/binding"),
    _may(["patch"], "pods/resize", "pods/status"),
    _may(READ, "nodes", "persistentvolumes"),
    _may(READ, "storageclasses", group="storage.k8s.io"),
    _may([*READ, "patch"], "persistentvolumeclaims"),
    _may(["create", "delete"], "services"),
    _may(["create"], "events"),
    _may([*READ, "delete"], PLURAL, group=GROUP),
    _may(["patch"], f"{PLURAL}/status", group=GROUP),
    _may(["update"], f"{PLURAL}/finalizers", group=GROUP),
)
AT_HOME = (
    _may(["create"], "leases", group="coordination.k8s.io"),
    _may(["get", "update"], "leases", group="coordination.k8s.io", resourceNames=[LEASE]),
)
"""In the operator's own namespace: the leader election."""

VIEW = (_may(READ, PLURAL, f"{PLURAL}/status", group=GROUP),)
EDIT = (
    _may(["create", "delete", "deletecollection", "patch", "update"], PLURAL, group=GROUP),
    _may(["get", "patch", "update"], f"{PLURAL}/scale", group=GROUP),
)
"""Aggregated to the roles `view` and `edit` of users."""


def rights(namespace: str, labels: dict[str, str]) -> list[dict[str, Any]]:
    def named(kind: str, name: str, where: str = "", **more: Any) -> dict[str, Any]:
        own = {"namespace": where} if where else {}
        api = "v1" if kind == "ServiceAccount" else "rbac.authorization.k8s.io/v1"
        meta = {"name": name, **own, "labels": labels | more.pop("labels", {})}
        return {"apiVersion": api, "kind": kind, "metadata": meta, **more}

    def bound(kind: str, to: str, where: str = "") -> dict[str, Any]:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": to, "name": NAME}
        subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
        return named(kind, NAME, where, roleRef=reference, subjects=[subject])

    def shared(name: str, rules: tuple[Rule, ...], *into: str) -> dict[str, Any]:
        to = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in into}
        return named("ClusterRole", f"{NAME}-{name}", labels=to, rules=list(rules))

    return [
        named("ServiceAccount", NAME, namespace),
        named("ClusterRole", NAME, rules=list(EVERYWHERE)),
        bound("ClusterRoleBinding", "ClusterRole"),
        named("Role", NAME, namespace, rules=list(AT_HOME)),
        bound("RoleBinding", "Role", namespace),
        shared("view", VIEW, "view"),
        shared("edit", EDIT, "edit"),
    ]
