"""What a task may say of the pods that it runs as, in the words of Kubernetes."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from headway.spec.base_model import Manifest, Rule
from headway.spec.quantity import Memory

Word = Annotated[str, Field(min_length=1, max_length=253)]

OURS = (
    "activeDeadlineSeconds", "hostname", "nodeName", "nodeSelector", "restartPolicy",
    "schedulerName", "schedulingGates", "subdomain", "terminationGracePeriodSeconds", "tolerations",
)  # fmt: skip
"""Of a pod's spec: what Headway says itself, or the manifest in its own words."""
TRAINING = "training"
"""The container that a task's command runs in."""


class Toleration(Manifest):
    """A taint that a node may have all the same."""

    key: Annotated[str, Field(max_length=316)] = ""
    """Of the taint; none, with `Exists`: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Must the taint's value be this one, or will any do?"""
    value: Annotated[str, Field(max_length=63)] = ""
    """Of the taint, with `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Left out: each of them."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """With `NoExecute`: for how long; none: for ever."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="operator",
            says="must be Exists where no key is given",
            cel="self.operator == 'Exists' || (has(self.key) && self.key != '')",
            holds=lambda t: t.operator == "Exists" or t.key != "",
        ),
        Rule(
            field="value",
            says="must be left out where the operator is Exists",
            cel="self.operator != 'Exists' || !has(self.value) || self.value == ''",
            holds=lambda t: t.operator != "Exists" or t.value == "",
        ),
    )


class Source(Manifest):
    """Something of the job's namespace, by name."""

    name: Word
    """What it is called."""
    optional: bool = False
    """Go on without it if it is not there."""


class EnvFrom(Manifest):
    """Environment variables from a config map or a secret. Headway itself never reads either."""

    prefix: Annotated[str, Field(max_length=63)] = ""
    """Put before each name."""
    config_map_ref: Source | None = None
    """The config map to take them from."""
    secret_ref: Source | None = None
    """The secret to take them from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="configMapRef",
            says="give either configMapRef or secretRef",
            cel="has(self.configMapRef) != has(self.secretRef)",
            holds=lambda e: (e.config_map_ref is None) != (e.secret_ref is None),
        ),
    )


class Mount(Manifest):
    """A folder that a task sees, and what is in it."""

    path: Annotated[str, Field(pattern=r"^/[^:]*$", max_length=1024)]
    """Where the task sees it."""
    claim: Word | None = None
    """A persistent volume claim of the job's namespace."""
    config_map: Word | None = None
    """A config map of the job's namespace, a file each key."""
    secret: Word | None = None
    """A secret of the job's namespace, a file each key."""
    scratch: Memory | None = None
    """Room of the node's own, at most this much, gone with the replica."""
    sub_path: Annotated[str, Field(max_length=1024)] = ""
    """Only this folder of it."""
    read_only: bool = False
    """The task may not write there."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="path",
            says="say what is mounted there: one of claim, configMap, secret and scratch",
            cel="[has(self.claim), has(self.configMap), has(self.secret), has(self.scratch)]"
            ".filter(given, given).size() == 1",
            holds=lambda m: [m.claim, m.config_map, m.secret, m.scratch].count(None) == 3,
        ),
    )


class PodMetadata(Manifest):
    """Labels and annotations of one's own."""

    labels: dict[str, str] = {}
    """Those under `headway.dev/` are Headway's."""
    annotations: dict[str, str] = {}
    """Those under `headway.dev/` are Headway's."""


class PodTemplate(Manifest):
    """What the manifest has no word for: parts of a pod, as Kubernetes spells them. What the
    manifest and Headway say goes over it.
    """

    metadata: PodMetadata = PodMetadata()
    """Of the pods."""
    spec: dict[str, Any] = {}
    """Of the pods. The container called `training` is the one that the task runs in; others run
    beside it."""

    @field_validator("spec")
    @classmethod
    def _not_ours(cls, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        for key in OURS:
            if key in spec:
                raise ValueError(f"{key} is not for a podTemplate to say: {_instead(key)}")
        containers = spec.get("containers", [])
        if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
            raise ValueError("containers is a list of containers")
        return spec


def _instead(key: str) -> str:
    known = {
        "nodeSelector": "use the task's nodeSelector",
        "tolerations": "use the task's tolerations",
        "activeDeadlineSeconds": "use the job's activeDeadlineSeconds",
        "terminationGracePeriodSeconds": "use the job's checkpoint.graceSeconds",
    }
    return known.get(key, "Headway sets it")
