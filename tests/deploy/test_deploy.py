"""The objects of an installation: one source, least privilege, no root."""

import json
import re
import runpy
from functools import partial
from inspect import signature
from pathlib import Path

import pytest
import yaml

from headway.backend.kubernetes.client.state_object import NAME, PARTS, SLOTS
from headway.cli.operator import operator
from headway.deploy import render
from headway.deploy.render import Values

ROOT = Path(__file__).parents[2]
document = partial(yaml.load, Loader=yaml.CSafeLoader)
documents = partial(yaml.load_all, Loader=yaml.CSafeLoader)


def test_generated_files_are_up_to_date():
    made = runpy.run_path(str(ROOT / "scripts" / "generate"))["generated"]()
    stale = [
        f"{folder}/{name}"
        for folder, those in made.items()
        for name, body in those.items()
        if not (path := ROOT / folder / name).exists() or path.read_text() != body
    ]
    assert stale == [], "run scripts/generate"


def rendered(chart, values, namespace):
    """Render like helm, for the expressions of our chart: values, the namespace, and whole files
    that only some releases have.
    """
    chosen = document(chart["values.yaml"]) | values

    def word(found):
        path, how = found[1].split("."), found[2]
        tree = {"Values": chosen, "Release": {"Namespace": namespace}}
        for part in path[1:]:
            tree = tree[part]
        text = str(tree).lower() if isinstance(tree, bool) else str(tree)
        return json.dumps(tree if how == "toJson" else text)

    def wanted(body):
        only = re.match(r"\{\{- if (.*) \}\}\n", body)
        watched, agent = bool(chosen["watchNamespace"]), bool(chosen["agent"]["namespace"])
        cases = {
            "not .Values.watchNamespace": not watched,
            ".Values.watchNamespace": watched,
            ".Values.podDisruptionBudget.enabled": chosen["podDisruptionBudget"]["enabled"],
            ".Values.networkPolicy.enabled": chosen["networkPolicy"]["enabled"],
            "and .Values.agent.namespace (not .Values.watchNamespace)": agent and not watched,
        }
        return only is None or cases[only[1]]

    bodies = [chart["crds/trainingjobs.yaml"]] if not chosen["watchNamespace"] else []
    files = [n for n in chart if n.startswith("templates/") and n.endswith(".yaml")]
    bodies += [chart[name] for name in files if name != "templates/hook.yaml"]
    plain = [re.sub(r"\{\{- .* \}\}\n", "", body) for body in bodies if wanted(body)]
    plain = [re.sub(r"\{\{ (\S+) \| (quote|toJson) \}\}", word, body) for body in plain]
    assert not any("{{" in body for body in plain)
    return [made for body in plain for made in documents(body)]


@pytest.mark.parametrize(
    "values",
    [
        Values(),
        Values(namespace="123", image="registry.example/h:2", replicas=3),
        Values(watch_namespace="team", tolerations=[{"operator": "Exists"}], policy="spread"),
        Values(disruption_budget=False, network_policy=False),
    ],
)
def test_chart_and_base_have_the_same_objects(values):
    chosen = {"image": values.image, "replicas": values.replicas, "policy": values.policy}
    chosen |= {"watchNamespace": values.watch_namespace, "tolerations": values.tolerations}
    chosen |= {"podDisruptionBudget": {"enabled": values.disruption_budget}}
    chosen |= {"networkPolicy": {"enabled": values.network_policy}}
    chart = rendered(render.chart(Values()), chosen, values.namespace)
    base = [
        made
        for name, body in render.kustomize(values).items()
        if name not in ("namespace.yaml", "kustomization.yaml")  # helm creates the namespace
        for made in documents(body)
    ]
    assert chart == base
    own = [] if values.watch_namespace else render.objects("namespace", values)
    assert render.stream(values) == own + base


def test_every_value_of_the_chart_is_used():
    chart = render.chart(Values())
    whole = "".join(body for name, body in chart.items() if name.startswith("templates/"))
    assert all(f".Values.{name} " in whole for name in render.CHOICES.values())


def test_the_base_lists_every_file():
    base = render.kustomize(Values())
    listed = document(base["kustomization.yaml"])["resources"]
    assert set(listed) == set(base) - {"kustomization.yaml"}
    assert [document(base["crd.yaml"])] == render.objects("crd", Values())


def granted(rules):
    return {
        (group, resource): set(rule["verbs"])
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def rules(kind):
    made = [*render.objects("rbac", Values()), *render.objects("rbac-cluster", Values())]
    return next(o["rules"] for o in made if (o["kind"], o["metadata"]["name"]) == (kind, "headway"))


def test_the_operator_has_exactly_these_permissions():
    read = {"get", "list", "watch"}
    assert granted(rules("ClusterRole")) == {
        ("", "pods"): read | {"create", "delete", "patch"},
        ("", "pods/resize"): {"patch"},
        ("", "persistentvolumeclaims"): {"get"},
        ("batch", "jobs"): read,
        ("jobset.x-k8s.io", "jobsets"): {"get"},
        ("autoscaling.k8s.io", "verticalpodautoscalers"): {"list"},
        ("", "nodes"): read,
        ("scheduling.k8s.io", "priorityclasses"): {"list", "watch"},
        ("authentication.k8s.io", "tokenreviews"): {"create"},
        ("", "services"): {"create"},
        ("", "events"): {"create", "patch"},
        ("headway.dev", "trainingjobs"): read | {"delete"},
        ("headway.dev", "trainingjobs/status"): {"patch"},
        ("headway.dev", "trainingjobs/finalizers"): {"update"},
    }
    own = {resource for _, resource in granted(rules("Role"))}
    assert own == {"leases", "pods", "secrets", "configmaps"}
    assert granted(rules("Role"))["", "pods"] == {"patch"}


def test_the_operator_reads_one_secret_by_name_and_creates_none():
    made = [o for part in ("rbac", "agent") for o in render.objects(part, Values())]
    found = [rule for o in made for rule in o.get("rules", ())]
    named = [r for r in found if set(r["resources"]) & {"secrets", "configmaps"}]
    reports = [r for r in named if r.get("resourceNames") == ["headway-reports"]]
    assert len(reports) == 4
    assert all(set(r["verbs"]) <= {"get", "patch"} for r in reports)
    others = [r for r in named if r not in reports]
    assert all(r["resources"] == ["configmaps"] for r in others)


def test_the_agent_has_no_rights_and_changes_nothing_on_its_node():
    objects = {o["kind"]: o for o in render.objects("agent", Values())}
    bound = [s["name"] for s in objects["RoleBinding"]["subjects"]]
    assert bound == ["headway"], "the operator, not the agent"
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert [v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v] == [
        "/var/log/pods",
        "/sys/fs/cgroup",
    ]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert "agent.yaml" not in render.kustomize(Values(agent_namespace=""))


def test_the_state_for_the_next_leader_is_in_config_maps_of_these_names_only():
    named = next(
        r for r in rules("Role") if r["resources"] == ["configmaps"] and "update" in r["verbs"]
    )
    names = [f"{NAME}-{slot}-{i}" for slot in SLOTS for i in range(PARTS)]
    assert named["resourceNames"] == names, "no other config map"


def test_no_role_grants_secrets_proxies_or_wildcards():
    parts = ("cluster", "rbac-cluster", "rbac-namespace")
    for made in [o for part in parts for o in render.objects(part, Values())]:
        for (group, resource), verbs in granted(made.get("rules", ())).items():
            assert resource not in ("secrets", "nodes/proxy", "pods/exec", "pods/log")
            assert resource != "configmaps" or made["kind"] == "Role", "only in its own namespace"
            assert "*" not in {group, resource, *verbs}
            only = made["metadata"]["name"] == "headway-admin"  # binds one role, by name
            assert not verbs & {"escalate", "impersonate", *([] if only else ["bind"])}


def test_an_operator_of_one_namespace_has_the_same_rights_there_and_reads_nodes():
    named = {o["metadata"]["name"]: o.get("rules") for o in render.objects("cluster", Values())}
    both = granted(named["headway-operator"]) | granted(named["headway-nodes"])
    assert both == granted(rules("ClusterRole"))
    kinds = {o["kind"] for o in render.stream(Values(watch_namespace="team"))}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
    cluster = render.stream(Values(), only_cluster=True)
    assert {o["kind"] for o in cluster} == {
        "CustomResourceDefinition",
        "PriorityClass",
        "ClusterRole",
    }


def test_the_schema_of_the_values_knows_each_of_them():
    chart = render.chart(Values())
    schema, values = json.loads(chart["values.schema.json"]), document(chart["values.yaml"])
    assert schema["properties"].keys() - {"global"} == values.keys()
    assert schema["properties"]["resources"]["properties"].keys() == values["resources"].keys()
    assert schema["additionalProperties"] is False


def test_the_operator_runs_without_privileges():
    deployment, *_ = render.objects("operator", Values())
    assert deployment["spec"]["replicas"] == 2
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all(set(volume) == {"name", "emptyDir"} for volume in pod["volumes"])


def test_an_operator_that_is_started_by_hand_uses_the_lease_of_the_installed_one():
    assert signature(operator).parameters["home"].default == Values().namespace
    deployment, *_ = render.objects("operator", Values())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert not [word for word in container["command"] if word.startswith("--home")]
    (own,) = [each for each in container["env"] if each["name"] == "POD_NAMESPACE"]
    assert own["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"


def test_manifests_are_printed(headway):
    ran = headway("kubernetes", "manifests", "--namespace", "ours", "--image", "i:1")
    found = list(documents(ran.out))
    assert ran.code == 0
    assert [made["kind"] for made in found][:3] == [
        "Namespace",
        "CustomResourceDefinition",
        "PriorityClass",
    ]
    assert found == render.stream(Values(namespace="ours", image="i:1"))
    as_json = json.loads(headway("kubernetes", "manifests", "--json").out)
    assert as_json["kind"] == "List"
    assert as_json["items"] == render.stream(Values())


@pytest.mark.parametrize(
    ("more", "there"), [([], "kustomization.yaml"), (["--helm"], "Chart.yaml")]
)
def test_manifests_are_written_to_a_directory(headway, tmp_path, more, there):
    ran = headway("kubernetes", "manifests", "--out", tmp_path / "x", "--replicas", 3, *more)
    assert ran.code == 0
    assert str(tmp_path / "x" / there) in ran.out.splitlines()
    assert "replicas: 3" in "".join(p.read_text() for p in (tmp_path / "x").glob("*.yaml"))


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--namespace", "Ours"], "--namespace"),
        (["--image", "two words"], "--image"),
        (["--watch-namespace", "Team"], "--watch-namespace"),
        (["--helm"], "--helm"),
    ],
)
def test_invalid_values_are_refused(headway, words, where):
    ran = headway("kubernetes", "manifests", *words)
    assert (ran.code, f"where: {where}" in ran.err) == (2, True)
    assert "remedy: " in ran.err
