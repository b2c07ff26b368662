"""The custom resource matches the models of the manifest and has a structural schema."""

import re
from pathlib import Path

import pytest
import yaml

from headway.core.model.job import Phase
from headway.deploy import render
from headway.deploy.crd import schema
from headway.errors import ConfigError
from headway.spec.load import parse
from headway.spec.manifest import GROUP, NAME, PLURAL, VERSION, TrainingJob
from headway.spec.status import TrainingJobStatus
from manifests import WHOLE, WRONG, WRONG_ON_A_CLUSTER, changed
from structural import faults


def read(manifest):
    return parse(yaml.safe_dump(manifest), TrainingJob, where="job.yaml")


def test_the_schema_is_structural():
    assert faults(schema()) == []


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ({"anyOf": [], "type": "string"}, "anyOf is not allowed"),
        ({"properties": {"a": {}}, "type": "object"}, ".a: no type"),
        ({"type": "array"}, "an array without items"),
        ({"type": "integer", "default": "1"}, "of another type"),
        ({"type": "string", "enum": ["a"], "default": "b"}, "none of the enum"),
        ({"type": "number", "exclusiveMinimum": 0}, "is a boolean here"),
        ({"type": "object", "required": ["a"], "default": {}}, "lacks a"),
        (
            {"type": "object", "x-kubernetes-validations": [{"fieldPath": ".a"}]},
            "which is not there",
        ),
    ],
)
def test_the_check_finds_what_is_not_structural(broken, fault):
    assert fault in "\n".join(faults(broken))


def fields(model, at=""):
    """Every field of the models, with its path."""
    for name, field in model.model_fields.items():
        way = f"{at}.{field.alias or name}"
        yield way, field
        for inside in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if hasattr(inside, "model_fields"):
                yield from fields(inside, way)


def properties(found, at=""):
    for name, inside in found.get("properties", {}).items():
        yield f"{at}.{name}", inside
        yield from properties(inside, f"{at}.{name}")
    if "items" in found:
        yield from properties(found["items"], at)


def test_the_schema_has_exactly_the_fields_of_the_models():
    ways = {w for w, _ in fields(TrainingJob)} | {
        f".status{w}" for w, _ in fields(TrainingJobStatus)
    }
    found = {w for w, _ in properties(schema())}
    only_kept_by_the_server = {f".metadata.{k}" for k in ("namespace", "labels", "annotations")}
    assert found == ways - only_kept_by_the_server | {".status"}
    assert len(found) > 80


def test_every_field_has_a_description():
    silent = [w for w, p in properties(schema()) if not p.get("description")]
    assert silent == [".metadata", ".metadata.name"]  # documented by the server itself


def test_the_defaults_are_those_of_pydantic():
    bare = read(changed("spec.tasks", [{"image": "x"}])).spec

    def agree(found, model, at):
        for name, inside in found.get("properties", {}).items():
            field = next(n for n, f in type(model).model_fields.items() if f.alias == name)
            given = getattr(model, field)
            if "properties" in inside and given is not None:
                agree(inside, given, f"{at}.{name}")
            elif "default" in inside:
                assert given == inside["default"], f"{at}.{name}"
            elif name not in ("tasks", "image"):
                assert not given, f"{at}.{name}"

    spec = schema()["properties"]["spec"]
    agree(spec, bare, "spec")
    agree(spec["properties"]["tasks"]["items"], bare.tasks[0], "task")


def test_the_phases_are_those_of_the_core():
    phases = schema()["properties"]["status"]["properties"]["phase"]["enum"]
    assert phases == [p.capitalize() for p in Phase]


def test_the_resource_scales_by_elastic_replicas_and_is_short_named_tj():
    (resource,) = render.objects("crd", render.Values())
    found = resource["spec"]
    (version,) = found["versions"]
    assert (found["group"], found["names"]["plural"], version["name"]) == (GROUP, PLURAL, VERSION)
    assert resource["metadata"]["name"] == NAME
    assert found["names"]["shortNames"] == ["tj"]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.elasticReplicas"
    assert version["subresources"]["status"] == {}
    known = {w for w, _ in properties(version["schema"]["openAPIV3Schema"])}
    columns = {c["jsonPath"] for c in version["additionalPrinterColumns"]}
    assert columns - {".metadata.creationTimestamp"} <= known


@pytest.mark.parametrize(("where", "to", "named"), WRONG)
def test_an_invalid_manifest_is_refused_with_the_name_of_the_field(where, to, named):
    with pytest.raises(ConfigError) as found:
        read(changed(where, to))
    assert f", {named}" in f"{found.value.where}\n{found.value.message}"


@pytest.mark.parametrize(("where", "to", "_"), WRONG_ON_A_CLUSTER)
def test_what_only_a_cluster_refuses_can_run_locally(where, to, _):
    assert read(changed(where, to))


def test_a_rule_names_the_line_and_the_value():
    with pytest.raises(ConfigError) as found:
        read(changed("spec.tasks.0.minReplicas", 2))
    assert found.value.message == "minReplicas: must not exceed replicas, but is 2"
    assert found.value.where.startswith("job.yaml:11, ")


def test_elastic_replicas_override_those_of_the_scalable_task():
    tasks = read(WHOLE).spec.to_core(kind="x").tasks
    assert [(t.name, t.replicas, t.least, t.most) for t in tasks] == [
        ("ps", 1, 1, 1),
        ("worker", 3, 1, 4),
    ]
    assert [t.elastic for t in tasks] == ["restart", "independent"]


@pytest.mark.parametrize("key", ["nodeName", "schedulerName", "tolerations", "restartPolicy"])
def test_a_pod_template_cannot_set_reserved_fields(key):
    with pytest.raises(ConfigError, match=f"{key} cannot be set in a podTemplate"):
        read(changed("spec.tasks.0.podTemplate", {"spec": {key: "x"}}))


def test_a_pod_template_with_invalid_containers_is_refused():
    with pytest.raises(ConfigError, match="containers must be a list of containers"):
        read(changed("spec.tasks.0.podTemplate", {"spec": {"containers": {"name": "x"}}}))


def test_the_examples_of_the_guide_are_valid_manifests():
    text = (Path(__file__).parents[2] / "docs" / "guide" / "kubernetes.md").read_text()
    job, template = (
        yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    )
    assert read(job).spec.count(read(job).spec.tasks[0]) == 2
    assert read(changed("spec.tasks.0.podTemplate", template["podTemplate"], job))
