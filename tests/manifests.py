"""Valid and invalid training jobs, for tests of pydantic and of a real API server."""

import copy

JOB = {
    "apiVersion": "headway.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "vae"},
    "spec": {"tasks": [{"name": "worker", "image": "train", "command": ["python", "train.py"]}]},
}

WHOLE = {
    **JOB,
    "metadata": {"name": "whole", "labels": {"team": "a"}, "annotations": {"note": "all of it"}},
    "spec": {
        "metric": {"name": "accuracy", "direction": "maximize"},
        "totalSteps": 3000,
        "checkpoint": {"mode": "sigterm", "graceSeconds": "1.5m"},
        "reports": {"pattern": r"acc=(?P<value>\S+)"},
        "priority": -3,
        "elasticReplicas": 3,
        "backoffLimit": 0,
        "activeDeadlineSeconds": "2h",
        "ttlSecondsAfterFinished": 600,
        "tasks": [
            {"name": "ps", "image": "train"},
            {
                "name": "worker",
                "replicas": 2,
                "minReplicas": 1,
                "maxReplicas": 4,
                "elastic": "independent",
                "image": "train",
                "command": ["python", "train.py"],
                "workingDir": "/work",
                "resources": {
                    "requests": {"cpu": "500m", "memory": "512Mi", "gpu": 1},
                    "limits": {"cpu": "0.5", "memory": 1073741824},
                },
                "env": {"LR": "0.001"},
                "envFrom": [
                    {"prefix": "S_", "secretRef": {"name": "keys", "optional": True}},
                    {"configMapRef": {"name": "settings"}},
                ],
                "mounts": [
                    {"path": "/data", "claim": "images", "subPath": "small", "readOnly": True},
                    {"path": "/etc/settings", "configMap": "settings"},
                    {"path": "/etc/keys", "secret": "keys"},
                    {"path": "/scratch", "scratch": "1Gi"},
                ],
                "nodeSelector": {"disk": "fast"},
                "tolerations": [
                    {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {
                        "key": "spot",
                        "value": "yes",
                        "effect": "NoExecute",
                        "tolerationSeconds": 60,
                    },
                ],
                "podTemplate": {
                    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
                    "spec": {
                        "serviceAccountName": "trainer",
                        "containers": [{"name": "training", "tty": True}, {"name": "side"}],
                    },
                },
            },
        ],
    },
}
"""A job with every field."""

WRONG = [
    ("spec.priority", 11, "spec.priority"),
    ("spec.priority", "high", "spec.priority"),
    ("spec.totalSteps", 0, "spec.totalSteps"),
    ("spec.backoffLimit", -1, "spec.backoffLimit"),
    ("spec.metric.direction", "up", "spec.metric.direction"),
    ("spec.checkpoint.mode", "magic", "spec.checkpoint.mode"),
    ("spec.checkpoint.graceSeconds", "5 parsecs", "spec.checkpoint.graceSeconds"),
    ("spec.checkpoint.graceSeconds", -1, "spec.checkpoint.graceSeconds"),
    ("spec.activeDeadlineSeconds", "soon", "spec.activeDeadlineSeconds"),
    ("spec.ttlSecondsAfterFinished", -5, "spec.ttlSecondsAfterFinished"),
    ("spec.tasks", [], "spec.tasks"),
    ("spec.tasks", [{"image": "t"}] * 2, "spec.tasks"),
    ("spec.tasks", [{"name": f"t{i}", "image": "t"} for i in range(17)], "spec.tasks"),
    ("spec.tasks.0.name", "Worker", "spec.tasks[0].name"),
    ("spec.tasks.0.name", "ps", "spec.tasks"),
    ("spec.tasks.0.replicas", 0, "spec.tasks[0].replicas"),
    ("spec.tasks.0.minReplicas", 2, "spec.tasks[0].minReplicas"),
    ("spec.tasks.0.maxReplicas", 0, "spec.tasks[0].maxReplicas"),
    ("spec.tasks.0", {"image": "t", "replicas": 3, "maxReplicas": 2}, "spec.tasks[0].maxReplicas"),
    ("spec.tasks.0.elastic", "sometimes", "spec.tasks[0].elastic"),
    ("spec.tasks.0.command", "python train.py", "spec.tasks[0].command"),
    ("spec.tasks.0.env", {"LR": 0.1}, "spec.tasks[0].env.LR"),
    ("spec.tasks.0.resources.requests.cpu", "4 apples", "spec.tasks[0].resources.requests.cpu"),
    ("spec.tasks.0.resources.requests.cpu", -1, "spec.tasks[0].resources.requests.cpu"),
    ("spec.tasks.0.resources.requests.gpu", -1, "spec.tasks[0].resources.requests.gpu"),
    ("spec.tasks.0.resources.limits.memory", "4Gb", "spec.tasks[0].resources.limits.memory"),
    (
        "spec.tasks.0.resources",
        {"requests": {"cpu": "1500 m"}, "limits": {"cpu": 1}},
        "spec.tasks[0].resources.requests",
    ),
    (
        "spec.tasks.0.resources",
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}},
        "spec.tasks[0].resources.requests",
    ),
    ("spec.tasks.0.mounts", [{"path": "data", "claim": "x"}], "spec.tasks[0].mounts[0].path"),
    ("spec.tasks.0.mounts", [{"path": "/data"}], "spec.tasks[0].mounts[0].path"),
    (
        "spec.tasks.0.mounts",
        [{"path": "/data", "claim": "x", "secret": "y"}],
        "spec.tasks[0].mounts[0].path",
    ),
    ("spec.tasks.0.mounts", [{"claim": "x"}], "spec.tasks[0].mounts[0].path"),
    ("spec.tasks.0.envFrom", [{}], "spec.tasks[0].envFrom[0].configMapRef"),
    ("spec.tasks.0.tolerations", [{"value": "x"}], "spec.tasks[0].tolerations[0].operator"),
    (
        "spec.tasks.0.tolerations",
        [{"key": "a", "operator": "Exists", "value": "x"}],
        "spec.tasks[0].tolerations[0].value",
    ),
    (
        "spec.tasks.0.tolerations",
        [{"key": "a", "effect": "Never"}],
        "spec.tasks[0].tolerations[0].effect",
    ),
    ("spec.tasks.0.nodeSelector", ["a"], "spec.tasks[0].nodeSelector"),
    ("spec.elasticReplicas", 2, "spec.elasticReplicas"),
    ("spec.elasticReplicas", 0, "spec.elasticReplicas"),
    (
        "spec",
        {
            "elasticReplicas": 5,
            "tasks": [{"image": "t", "replicas": 2, "minReplicas": 1, "maxReplicas": 4}],
        },
        "spec.elasticReplicas",
    ),
    (
        "spec",
        {
            "elasticReplicas": 2,
            "tasks": [
                {"name": n, "image": "t", "replicas": 1, "maxReplicas": 4} for n in ("a", "b")
            ],
        },
        "spec.elasticReplicas",
    ),
    ("spec.tasks.0.repilcas", 2, "spec.tasks[0]"),
    ("metadata.name", "Vae", "metadata.name"),
    ("metadata.name", "v" * 64, "metadata.name"),
]
"""Path, value, and the place that the error names. Refused by both."""

WRONG_ON_A_CLUSTER = [
    ("spec.tasks.0.image", "", "spec.tasks[0].image"),
    ("spec.tasks.0.name", "a.b", "spec.tasks[0].name"),
    ("spec.tasks.0.resources.requests.gpu", 0.5, "spec.tasks[0].resources.requests.gpu"),
    ("spec.tasks.0.resources.requests.cpu", 0.5, "spec.tasks[0].resources.requests.cpu"),
    ("metadata.name", "1st", "metadata.name"),
    ("metadata.name", "v" * 51, "metadata.name"),
    ("spec", {}, "spec.tasks"),
    ("spec.tasks.0.replicas", 1001, "more than 1000 replicas"),
]
"""Valid locally, but not on a cluster."""


def changed(where, to, base=JOB):
    """Return the job with one value changed."""
    found = copy.deepcopy(base)
    *way, last = where.split(".")
    place = found
    for part in way:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[int(last) if last.isdigit() else last] = to
    return found
