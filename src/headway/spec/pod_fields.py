"""Fields of a task that configure its pods, in the terms of Kubernetes."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from headway.spec.base_model import Manifest, Rule
from headway.spec.quantity import Memory

Word = Annotated[str, Field(min_length=1, max_length=253)]

OWN = ("hostname", "nodeName", "restartPolicy", "schedulerName", "schedulingGates", "subdomain")
RESERVED = {
    **dict.fromkeys(OWN, "Headway sets it"),
    "nodeSelector": "use the task's nodeSelector",
    "tolerations": "use the task's tolerations",
    "activeDeadlineSeconds": "use the job's activeDeadlineSeconds",
    "terminationGracePeriodSeconds": "use the job's checkpoint.graceSeconds",
}
"""Fields of a pod's spec that Headway sets, from the manifest or by itself; what to do instead."""
TRAINING = "training"
"""Name of the container that runs a task's command."""


class Toleration(Manifest):
    """A taint of nodes that the task tolerates."""

    key: Annotated[str, Field(max_length=316)] = ""
    """Key of the taint; empty with `Exists`: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal: the taint must have this value. Exists: any value."""
    value: Annotated[str, Field(max_length=63)] = ""
    """Value of the taint, with `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Defaults to all effects."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """With `NoExecute`: how long the pod stays. Defaults to forever."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="operator",
            message="must be Exists if there is no key",
            cel="self.operator == 'Exists' || (has(self.key) && self.key != '')",
            holds=lambda t: t.operator == "Exists" or t.key != "",
        ),
        Rule(
            field="value",
            message="must be omitted if the operator is Exists",
            cel="self.operator != 'Exists' || !has(self.value) || self.value == ''",
            holds=lambda t: t.operator != "Exists" or t.value == "",
        ),
    )


class Source(Manifest):
    """A reference to an object of the job's namespace."""

    name: Word
    """Name of the object."""
    optional: bool = False
    """Start without the object if it does not exist."""


class EnvFrom(Manifest):
    """Environment variables from a config map or a secret, which Headway itself does not read."""

    prefix: Annotated[str, Field(max_length=63)] = ""
    """Prefix of each variable's name."""
    config_map_ref: Source | None = None
    """Config map that holds the variables."""
    secret_ref: Source | None = None
    """Secret that holds the variables."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="configMapRef",
            message="give either configMapRef or secretRef",
            cel="has(self.configMapRef) != has(self.secretRef)",
            holds=lambda e: (e.config_map_ref is None) != (e.secret_ref is None),
        ),
    )


class Mount(Manifest):
    """A volume that is mounted into each replica of a task."""

    path: Annotated[str, Field(pattern=r"^/[^:]*$", max_length=1024)]
    """Mount path in the container."""
    claim: Word | None = None
    """Persistent volume claim of the job's namespace."""
    config_map: Word | None = None
    """Config map of the job's namespace, one file per key."""
    secret: Word | None = None
    """Secret of the job's namespace, one file per key."""
    scratch: Memory | None = None
    """Size limit of a scratch volume on the node, which is deleted with the replica."""
    sub_path: Annotated[str, Field(max_length=1024)] = ""
    """Mount only this directory of the volume."""
    read_only: bool = False
    """Mount the volume read-only."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="path",
            message="needs exactly one of claim, configMap, secret and scratch",
            cel="[has(self.claim), has(self.configMap), has(self.secret), has(self.scratch)]"
            ".filter(given, given).size() == 1",
            holds=lambda m: [m.claim, m.config_map, m.secret, m.scratch].count(None) == 3,
        ),
    )


class PodMetadata(Manifest):
    """Additional labels and annotations."""

    labels: dict[str, str] = {}
    """Labels; the prefix `headway.dev/` is reserved."""
    annotations: dict[str, str] = {}
    """Annotations; the prefix `headway.dev/` is reserved."""


class PodTemplate(Manifest):
    """Further fields of the pods, in the syntax of Kubernetes. Fields that the manifest or Headway
    sets take precedence.
    """

    metadata: PodMetadata = PodMetadata()
    """Metadata of the pods."""
    spec: dict[str, Any] = {}
    """Spec of the pods. The container called `training` runs the task's command; others are
    sidecars."""

    @field_validator("spec")
    @classmethod
    def _no_reserved_fields(cls, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        reserved = min(RESERVED.keys() & spec, default=None)
        if reserved:
            raise ValueError(f"{reserved} cannot be set in a podTemplate: {RESERVED[reserved]}")
        containers = spec.get("containers", [])
        if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
            raise ValueError("containers must be a list of containers")
        return spec
