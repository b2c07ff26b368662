"""A real API server takes our custom resource, refuses what is wrong by name, and lets the operator
do what it must and no more. Pods made from a manifest run as nobody special.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import image
import pytest
import yaml
from patience import wait_for

from headway.backend.kubernetes.client.api import connect
from headway.backend.kubernetes.platform.cleanup import remove_finalizers
from headway.backend.kubernetes.platform.pod_builder import placed, to_pod, to_service
from headway.core.model.units import ReplicaId
from headway.deploy import render
from headway.deploy.render import Values
from headway.spec.manifest import NAME, TrainingJob
from headway.spec.status import TrainingJobStatus
from manifests import JOB, WHOLE, WRONG, WRONG_ON_A_CLUSTER, changed

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("installed")]

IMAGE = image.NAME
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(kubectl):
    """Everything but the operator itself, in a namespace and under a name of our own: the cluster
    may have a Headway that somebody uses.
    """
    where = f"headway-{uuid4().hex[:8]}"
    found = render.stream(Values(namespace=where, agent_namespace=f"{where}-agent", replicas=1))
    kinds = ("Deployment", "PriorityClass")
    there = [_renamed(made, where) for made in found if made["kind"] not in kinds]
    ours = kubectl("get", "crd", NAME).returncode != 0
    kubectl.done("apply", given={"apiVersion": "v1", "kind": "List", "items": there})
    wait_for(lambda: kubectl("get", "tj").returncode == 0)
    yield where
    kubectl.done("delete", "namespace", where, f"{where}-agent", "--wait=false")
    for made in there:
        if made["kind"].startswith("ClusterRole"):
            kubectl.done("delete", made["kind"], made["metadata"]["name"])
    if ours:
        kubectl.done("delete", "crd", NAME)


def _renamed(made, name):
    if not made["kind"].startswith("ClusterRole"):
        return made
    meta = made["metadata"]
    made = made | {"metadata": meta | {"name": meta["name"].replace("headway", name)}}
    if "roleRef" in made:
        made["roleRef"] = made["roleRef"] | {"name": name}
    return made


@pytest.fixture
def namespace(cluster, kubectl):
    """One for this test, held to the strictest of Kubernetes' own standards."""
    name = f"test-{uuid4().hex[:8]}"
    strict = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.create("namespaces", {"metadata": {"name": name, "labels": strict}})
    wait_for(lambda: cluster.has("serviceaccounts", "default", name))
    yield name
    kubectl.done("delete", "namespace", name, "--wait=false")


def create(cluster, manifest):
    """The answer of the API server, which stores nothing."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    status, text = cluster.ask("POST", cluster.path("trainingjobs"), manifest, **query)
    return status, json.loads(text)


def test_what_is_left_out_is_filled_in_as_pydantic_does(cluster):
    _, stored = create(cluster, JOB)
    read = TrainingJob.model_validate(JOB).spec
    assert stored["spec"] != JOB["spec"]
    assert TrainingJob.model_validate(JOB | {"spec": stored["spec"]}).spec == read


def test_everything_that_a_manifest_can_say_is_kept(cluster):
    _, stored = create(cluster, WHOLE)
    again = TrainingJob.model_validate(WHOLE | {"spec": stored["spec"]})
    assert again.spec == TrainingJob.model_validate(WHOLE).spec


def test_one_file_is_applied_to_a_cluster_and_run_on_this_machine(kubectl, namespace, tmp_path):
    folder = ROOT / "workloads"
    kubectl.done("create", "-n", namespace, "-f", folder / "jobs" / "vae.yaml")
    words = [sys.executable, "-m", "headway", "run", folder / "manifest.yaml", "--json"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        [*words, "--data", tmp_path],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (result,) = json.loads(ran.stdout)
    assert {j["name"]: j["outcome"] for j in result["per_job"]}["vae"] == "succeeded"


def by_name(made):
    return {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]): o for o in made}


def test_kustomize_makes_the_same_of_the_base(kubectl):
    made = kubectl.done("kustomize", ROOT / "deploy" / "kustomize")
    assert by_name(yaml.safe_load_all(made)) == by_name(render.stream(Values()))


def test_helm_makes_the_same_of_the_chart(helm):
    chart = str(ROOT / "deploy" / "helm" / "headway")
    subprocess.run([helm, "lint", "--strict", chart], check=True)
    words = ["template", "headway", chart, "--include-crds", "--namespace", "ours"]
    chosen = ["--set", "image=registry.example/h:2", "--set", "replicas=3", "--kube-version=1.34.0"]
    made = subprocess.run(
        [helm, *words, *chosen], check=True, capture_output=True, text=True
    ).stdout
    values = Values(namespace="ours", image="registry.example/h:2", replicas=3)
    expected = [o for o in render.stream(values) if o["metadata"]["name"] != "ours"]
    found = by_name(yaml.safe_load_all(made))
    hook = found.pop(("Job", "ours", "headway-cleanup"))
    assert hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    assert found == by_name(expected)
    wrong = subprocess.run([helm, *words, "--set", "replica=3"], check=False, capture_output=True)
    assert b"replica" in wrong.stderr


@pytest.mark.parametrize(("where", "to", "named"), WRONG + WRONG_ON_A_CLUSTER)
def test_what_is_wrong_is_refused_with_the_name_of_the_field(cluster, where, to, named):
    status, answer = create(cluster, changed(where, to))
    assert status in (400, 422)
    assert named in answer["message"]


def test_a_job_is_scaled_and_its_scale_is_shown(kubectl, namespace):
    there = ("-n", namespace)
    kubectl.done("apply", *there, given=WHOLE)
    assert kubectl("scale", "tj", "whole", "--replicas=4", *there).returncode == 0
    refused = kubectl("scale", "tj", "whole", "--replicas=5", *there).stderr
    assert "spec.elasticReplicas" in refused
    assert "between minReplicas and maxReplicas" in refused
    told = TrainingJobStatus.model_validate(
        {
            "phase": "Running",
            "reason": "two nodes had room",
            "replicas": 3,
            "selector": "headway.dev/job=whole",
            "startTime": "2026-11-15T12:00:00Z",
            "placement": {"worker-0": "node-1"},
            "nodes": "node-1",
            "conditions": [
                {
                    "type": "Placed",
                    "status": "True",
                    "reason": "Fits",
                    "lastTransitionTime": "2026-11-15T12:00:00Z",
                }
            ],
        }
    ).model_dump(mode="json", by_alias=True, exclude_none=True)
    patch = ["patch", "tj", "whole", *there, "--subresource=status", "--type=merge", "-p"]
    kubectl.done(*patch, json.dumps({"status": told, "spec": {"priority": 9}}))
    found = json.loads(kubectl.done("get", "tj", "whole", *there, "-o", "json"))
    assert found["status"].items() >= told.items()
    assert (found["spec"]["elasticReplicas"], found["spec"]["priority"]) == (4, -3)
    head, row = kubectl.done("get", "tj", *there, "-o", "wide").splitlines()
    assert head.split() == [
        "NAME", "PHASE", "PROGRESS", "ETA", "REPLICAS", "NODES", "AGE", "PRIORITY", "STARTED",
        "FINISHED", "VALUE", "CPU", "REASON",
    ]  # fmt: skip
    assert row.split()[:4] == ["whole", "Running", "3", "node-1"]
    assert "-3" in row.split()
    assert row.endswith("two nodes had room")
    assert "phase" in kubectl(*patch, '{"status": {"phase": "happy"}}').stderr


def test_tasks_stay_as_they_are_unless_the_job_is_suspended(kubectl, namespace):
    kubectl.done("apply", "-n", namespace, given=JOB)
    other = changed("spec.tasks.0.image", "other")
    ran = kubectl("apply", "-n", namespace, given=other)
    assert "spec.tasks" in ran.stderr
    assert "can be changed only while the job is suspended" in ran.stderr
    kubectl.done("apply", "-n", namespace, given=changed("spec.suspend", to=True))
    kubectl.done("apply", "-n", namespace, given=changed("spec.suspend", to=True, base=other))
    kubectl.done("apply", "-n", namespace, given=other)  # resumed, as Kueue does
    known = json.loads(kubectl.done("get", "--raw", "/apis/headway.dev/v1alpha1"))["resources"]
    (found,) = [r for r in known if r["name"] == "trainingjobs"]
    assert (found["shortNames"], found["categories"]) == (["tj"], ["all", "headway"])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("get secrets", "no"),
        ("list secrets", "no"),
        ("get nodes --subresource=proxy", "no"),
        ("get pods --subresource=log", "no"),
        ("create pods --subresource=exec", "no"),
        ("get configmaps", "no"),
        ("patch nodes", "no"),
        ("create trainingjobs.headway.dev", "no"),
        ("update pods", "no"),
        ("get services", "no"),
        ("create pods", "yes"),
        ("create pods --subresource=binding", "no"),
        ("patch pods --subresource=resize", "yes"),
        ("get persistentvolumeclaims", "yes"),
        ("list persistentvolumeclaims", "no"),
        ("delete persistentvolumeclaims", "no"),
        ("watch jobs.batch", "yes"),
        ("patch jobs.batch", "no"),
        ("delete jobs.batch", "no"),
        ("delete services", "no"),
        ("patch pods", "yes"),
        ("watch nodes", "yes"),
        ("create events", "yes"),
        ("patch trainingjobs.headway.dev --subresource=status", "yes"),
        ("update trainingjobs.headway.dev --subresource=finalizers", "yes"),
    ],
)
def test_the_operator_may_do_this_and_not_that(cluster, installed, question, answer):
    verb, resource, *more = question.split()
    assert may(cluster, installed, verb, resource, *more) == (answer == "yes")


def may(cluster, home, verb, resource, subresource="", namespace="default"):
    """Whether the account of the operator in the namespace `home` may do so."""
    resource, _, name = resource.partition("/")
    resource, _, group = resource.partition(".")
    asked = {"verb": verb, "resource": resource, "group": group, "name": name}
    asked |= {"subresource": subresource.removeprefix("--subresource="), "namespace": namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body, user = {"spec": {"resourceAttributes": asked}}, f"system:serviceaccount:{home}:headway"
    status, text = cluster.ask("POST", path, {**review, **body}, user=user)
    assert status == 201, text
    return json.loads(text)["status"]["allowed"]


@pytest.mark.parametrize(
    ("lease", "where", "answer"),
    [("headway", "home", "yes"), ("another", "home", "no"), ("headway", "kube-system", "no")],
)
def test_the_operator_has_one_lease_in_its_own_namespace(cluster, installed, lease, where, answer):
    asked = "update", f"leases.coordination.k8s.io/{lease}"
    there = installed if where == "home" else where
    assert may(cluster, installed, *asked, namespace=there) == (answer == "yes")


def test_users_that_may_edit_a_namespace_may_edit_its_training_jobs(kubectl, namespace):
    kubectl.done(
        "create", "rolebinding", "ann", "--clusterrole=edit", "--user=ann", "-n", namespace
    )

    def may(what, sub=()):
        words = ["auth", "can-i", what, "trainingjobs.headway.dev", *sub]
        return kubectl(*words, "--as=ann", "-n", namespace).stdout.strip() == "yes"

    wait_for(lambda: may("create"))
    assert may("patch", ["--subresource=scale"])
    assert not may("patch", ["--subresource=status"])


def test_the_operator_fits_the_strictest_standard(kubectl, installed):
    deployment, *_ = render.objects("operator", Values(namespace=installed))
    meta = {"name": "trial", "namespace": installed}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    spec = deployment["spec"]["template"]["spec"]
    kubectl.done("create", "--dry-run=server", given=pod | {"spec": spec})
    loose = kubectl("run", "x", "--image=x", "-n", installed, "--dry-run=server")
    assert 'violates PodSecurity "restricted' in loose.stderr


SCRIPT = """
import os, pathlib
print("uid", os.getuid())
print("env", os.environ["LR"], os.environ["S_KEY"], os.environ["COLOUR"], os.environ["HEADWAY_JOB"])
print("file", pathlib.Path("/etc/settings/COLOUR").read_text())
for place in ("/headway", "/tmp", "/scratch", "/", "/etc/settings"):
    try:
        pathlib.Path(place, "new").write_text("x")
        print("may write", place)
    except OSError as error:
        print("may not write", place)
print("host", os.uname().nodename)
"""


TASK = {
    "name": "worker",
    "image": IMAGE,
    "command": ["python3", "-c", SCRIPT],
    "workingDir": "/tmp",
    "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
    "env": {"LR": "0.1"},
    "envFrom": [
        {"prefix": "S_", "secretRef": {"name": "keys"}},
        {"configMapRef": {"name": "settings"}},
    ],
    "mounts": [
        {"path": "/etc/settings", "configMap": "settings"},
        {"path": "/scratch", "scratch": "16Mi"},
    ],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"kubernetes.io/os": "linux"},
}


def test_a_pod_made_from_a_manifest_runs_and_finds_what_it_was_promised(kubectl, namespace):
    there = ("-n", namespace)
    kubectl.done("create", "configmap", "settings", "--from-literal=COLOUR=red", *there)
    kubectl.done("create", "secret", "generic", "keys", "--from-literal=KEY=value", *there)
    job = changed("spec.tasks", [TASK])
    made = json.loads(kubectl.done("create", *there, "-o", "json", given=job))
    spec = TrainingJob.model_validate(JOB | {"spec": made["spec"]}).spec
    kubectl.done("create", given=to_service(made))
    replica = ReplicaId.of("vae", spec.tasks[0].name, 0)
    node = json.loads(kubectl.done("get", "nodes", "-o", "json"))["items"][-1]["metadata"]["name"]
    kubectl.done("create", given=placed(to_pod(made, spec, replica, 1, (replica,)), node, ""))
    phase = ["get", "pod", "vae-worker-0-1", *there, "-o", "jsonpath={.status.phase}"]
    wait_for(lambda: kubectl.done(*phase) in ("Succeeded", "Failed"))
    said = kubectl.done("logs", "vae-worker-0-1", *there)
    where = ["get", "pod", "vae-worker-0-1", *there, "-o", "jsonpath={.spec.nodeName}"]
    assert kubectl.done(*where) == node
    assert kubectl.done(*phase) == "Succeeded", said
    assert said.splitlines() == [
        "uid 1000",
        "env 0.1 value red vae",
        "file red",
        "may write /headway",
        "may write /tmp",
        "may write /scratch",
        "may not write /",
        "may not write /etc/settings",
        "host vae-worker-0",
    ]
    kubectl.done("delete", "tj", "vae", *there)  # what belongs to a job goes with it
    assert remove_finalizers(connect(kubectl.kube.kubeconfig), namespace) == 1
    wait_for(lambda: kubectl("get", "pod,service", "-o", "name", *there).stdout == "")
