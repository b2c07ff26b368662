"""A replica as a pod: what the manifest says is in it, and nobody special runs it."""

from copy import deepcopy

import pytest

from headway.backend.kubernetes.platform.pod_builder import FOLDER, placed, to_pod, to_service
from headway.core.model.units import ReplicaId
from headway.spec.manifest import TrainingJob
from manifests import JOB, WHOLE, changed

OWNER = {"metadata": {"name": "vae", "namespace": "team-a", "uid": "1-2-3"}}


def pod(manifest, task=0):
    spec = TrainingJob.model_validate(manifest).spec
    replica = ReplicaId.of("vae", spec.tasks[task].name, 1)
    return to_pod(OWNER, spec, replica, 2, (replica,))


def training(made):
    return made["spec"]["containers"][0]


def test_a_small_job_is_a_small_pod():
    made = pod(JOB)
    assert made["metadata"]["name"] == "vae-worker-1-2"
    assert made["metadata"]["labels"] == {
        "app.kubernetes.io/name": "trainingjob",
        "app.kubernetes.io/instance": "vae",
        "app.kubernetes.io/component": "worker",
        "app.kubernetes.io/managed-by": "headway",
        "headway.dev/job": "vae",
        "headway.dev/task": "worker",
        "headway.dev/replica": "worker-1",
        "headway.dev/attempt": "2",
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "1-2-3"
    assert "schedulerName" not in made["spec"], "kube-scheduler binds it"
    assert made["spec"]["restartPolicy"] == "Never"
    assert training(made)["command"] == ["python", "train.py"]
    assert {"name": "HEADWAY_JOB", "value": "vae"} in training(made)["env"]
    assert training(made)["resources"] == {"requests": {}, "limits": {}}


def env_of(task):
    made = pod({**JOB, "spec": {"tasks": [{"name": "worker", "image": "x:1", **task}]}})
    return {each["name"]: each["value"] for each in training(made)["env"]}


def test_a_replica_that_is_alone_knows_its_number_if_others_may_join():
    found = env_of({"replicas": 1, "maxReplicas": 3})
    assert (found["RANK"], found["WORLD_SIZE"]) == ("0", "1")
    assert found["MASTER_ADDR"] == "vae-worker-1.vae-1-2-3.team-a.svc"
    assert "RANK" not in env_of({"replicas": 1})


def test_agents_of_torchrun_know_where_to_meet():
    command = ["torchrun", "train.py"]
    found = env_of({"maxReplicas": 3, "elastic": "torchrun", "command": command})
    assert found["PET_NNODES"] == "1:3"
    assert found["PET_RDZV_ENDPOINT"] == "vae-worker-1.vae-1-2-3.team-a.svc:29500"
    assert found["PET_RDZV_CONF"].startswith("is_host=true,")


def test_a_training_pod_runs_unprivileged_and_writes_only_to_mounts():
    made = pod(JOB)
    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    assert training(made)["securityContext"]["readOnlyRootFilesystem"] is True
    assert [m["mountPath"] for m in training(made)["volumeMounts"]] == [FOLDER, "/tmp"]


def test_everything_that_a_manifest_can_say_is_in_the_pod():
    made = pod(WHOLE, task=1)
    spec, inside = made["spec"], training(made)
    assert spec["terminationGracePeriodSeconds"] == 90
    assert spec["activeDeadlineSeconds"] == 7200
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"][0] == {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert spec["tolerations"][1]["tolerationSeconds"] == 60
    assert inside["workingDir"] == "/work"
    assert inside["resources"] == {
        "requests": {"cpu": "500m", "memory": "536870912", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "500m", "memory": "1073741824", "nvidia.com/gpu": "1"},
    }
    assert {"name": "LR", "value": "0.001"} in inside["env"]
    assert inside["envFrom"] == [
        {"prefix": "S_", "secretRef": {"name": "keys", "optional": True}},
        {"configMapRef": {"name": "settings"}},
    ]
    assert [{k: v for k, v in volume.items() if k != "name"} for volume in spec["volumes"]] == [
        {"persistentVolumeClaim": {"claimName": "images", "readOnly": True}},
        {"configMap": {"name": "settings"}},
        {"secret": {"secretName": "keys"}},
        {"emptyDir": {"sizeLimit": "1073741824"}},
        {"emptyDir": {}},
        {"emptyDir": {}},
    ]
    assert inside["volumeMounts"][0] == {
        "name": "mount-0",
        "mountPath": "/data",
        "readOnly": True,
        "subPath": "small",
    }


def test_a_template_cannot_say_what_a_pod_declared():
    job = deepcopy(WHOLE)
    notes = job["spec"]["tasks"][1]["podTemplate"]["metadata"]["annotations"]
    notes["headway.dev/declared-cpu"] = '{"requests":{"cpu":64}}'
    made = pod(job, task=1)
    assert made["metadata"]["annotations"] == {"note": "b", "headway.dev/attempt": "2"}


def test_a_template_comes_first_and_we_go_over_it():
    made = pod(WHOLE, task=1)
    assert made["spec"]["serviceAccountName"] == "trainer"
    assert made["spec"]["automountServiceAccountToken"] is True
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["annotations"] == {"note": "b", "headway.dev/attempt": "2"}
    assert training(made)["tty"] is True
    assert [c["name"] for c in made["spec"]["containers"]] == ["training", "side"]
    own = {
        "name": "training",
        "env": [{"name": "LR", "value": "1"}, {"name": "HOME", "value": "/data"}],
        "securityContext": {},
        "resources": {"requests": {"cpu": "4", "amd.com/gpu": "1"}},
        "volumeMounts": [{"name": "mine", "mountPath": "/tmp"}],
    }
    template = {"spec": {"containers": [own], "volumes": [{"name": "mine", "emptyDir": {}}]}}
    inside = training(pod(changed("spec.tasks.1.podTemplate", template, WHOLE), task=1))
    env = [(e["name"], e["value"]) for e in inside["env"] if e["name"] in ("HOME", "LR")]
    assert env == [("HOME", "/data"), ("LR", "0.001")]
    assert inside["securityContext"] == {}
    assert inside["resources"]["requests"]["cpu"] == "500m"
    assert inside["resources"]["requests"]["amd.com/gpu"] == "1"
    assert [m["mountPath"] for m in inside["volumeMounts"]].count("/tmp") == 1


@pytest.mark.parametrize("path", [FOLDER, "/tmp"])
def test_a_claim_can_stand_where_the_nodes_own_room_would(path):
    made = pod(changed("spec.tasks.0.mounts", [{"path": path, "claim": "kept"}]))
    assert [m["mountPath"] for m in training(made)["volumeMounts"]].count(path) == 1


def test_replicas_find_each_other_by_name():
    made, found = pod(JOB), to_service(OWNER)
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("vae-worker-1", "vae-1-2-3")
    assert found["metadata"]["name"] == "vae-1-2-3"
    assert found["spec"]["clusterIP"] == "None"
    assert found["spec"]["selector"].items() <= made["metadata"]["labels"].items()


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ON_B = {"key": "metadata.name", "operator": "In", "values": ["b"]}


def terms(made):
    return made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_a_pod_names_its_node():
    alone = placed(pod(JOB), "b", "")
    assert terms(alone) == [{"matchFields": [ON_B]}]
    assert not {"schedulingGates", "initContainers", "priorityClassName"} & alone["spec"].keys()


def test_its_node_is_added_to_each_term_that_the_user_gave():
    expressions = [{"key": "disk", "operator": "Exists"}]
    not_c = {"key": "metadata.name", "operator": "NotIn", "values": ["c"]}
    given = [{"matchExpressions": expressions}, {"matchFields": [not_c]}, {}]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": given}, **preferred}}
    affinity["podAntiAffinity"] = {"some": "thing"}
    template = {"spec": {"affinity": affinity}}
    made = placed(pod(changed("spec.tasks.0.podTemplate", template)), "b", "")
    assert terms(made) == [
        {"matchExpressions": expressions, "matchFields": [ON_B]},
        {"matchFields": [not_c, ON_B]},
    ]
    assert made["spec"]["affinity"]["podAntiAffinity"] == {"some": "thing"}
    assert made["spec"]["affinity"]["nodeAffinity"].items() >= preferred.items()


def test_a_pod_of_a_gang_is_gated_and_waits_with_the_resources_of_its_training():
    template = {"spec": {"initContainers": [{"name": "data"}]}}
    made = placed(pod(changed("spec.tasks.1.podTemplate", template, WHOLE), 1), "b", "headway:1")
    assert made["spec"]["schedulingGates"] == [{"name": "headway.dev/gang"}]
    first, second = made["spec"]["initContainers"]
    assert (first["image"], second["name"]) == ("headway:1", "data")
    assert first["resources"] == {
        "requests": {"cpu": "500m", "memory": "536870912"},
        "limits": {"cpu": "500m", "memory": "1073741824"},
    }, "equal ones stay equal"
    mounted = {m["name"] for m in first["volumeMounts"]}
    assert mounted <= {v["name"] for v in made["spec"]["volumes"]}
    assert made["spec"]["priorityClassName"] == "headway-gang"


def test_a_pod_of_a_gang_waits_with_little_cpu_so_that_its_weight_can_be_lowered():
    made = placed(pod(changed("spec.tasks.0.resources", {"requests": {"cpu": 0.5}})), "b", "w:1")
    (first,) = made["spec"]["initContainers"]
    assert first["resources"] == {"requests": {"cpu": "10m"}, "limits": {}}


def test_a_gang_keeps_the_priority_class_that_it_names():
    template = {"spec": {"priorityClassName": "batch"}}
    made = placed(pod(changed("spec.tasks.0.podTemplate", template)), "b", "headway:1")
    assert made["spec"]["priorityClassName"] == "batch"
