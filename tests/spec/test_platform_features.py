"""A platform refuses the fields of a manifest that it does not support, by name."""

import pytest
import yaml

from headway.errors import ConfigError
from headway.sim.build import to_scenario
from headway.spec.load import read_workload
from headway.spec.platform_features import ALL_FEATURES
from headway.spec.runnable import to_jobs
from manifests import JOB, WHOLE, changed

WORKLOAD = """
apiVersion: headway.dev/v1alpha1
kind: Workload
jobs: [{name: mine, manifest: job.yaml, profile: {work: 5}}]
"""


@pytest.fixture
def beside(tmp_path):
    def write(manifest):
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest))
        path = tmp_path / "w.yaml"
        path.write_text(WORKLOAD)
        return read_workload(path), path

    return write


def test_a_manifest_of_a_cluster_runs_locally_and_in_the_simulator(beside):
    tolerant = changed("spec.tasks.0.tolerations", [{"operator": "Exists"}])
    workload, path = beside(tolerant | {"metadata": {"name": "x", "namespace": "team-a"}})
    (job,) = to_jobs(workload, path)
    assert job.commands["worker"].argv == ("python", "train.py")
    assert len(to_scenario(workload, path=path).jobs) == 1


@pytest.mark.parametrize(
    ("where", "to", "simulated"),
    [
        ("spec.activeDeadlineSeconds", 60, False),
        ("spec.ttlSecondsAfterFinished", 60, True),
        ("spec.tasks.0.nodeSelector", {"disk": "fast"}, False),
        ("spec.tasks.0.mounts", [{"path": "/data", "claim": "images"}], True),
        ("spec.tasks.0.envFrom", [{"configMapRef": {"name": "x"}}], True),
        ("spec.tasks.0.podTemplate", {"spec": {"hostNetwork": True}}, True),
    ],
)
def test_an_unsupported_field_is_refused_by_name(beside, where, to, simulated):
    workload, path = beside(changed(where, to))
    named = where.removeprefix("spec.").replace("tasks.0", r"tasks\[0\]")
    with pytest.raises(ConfigError, match=f"'mine' uses {named}, which this platform"):
        to_jobs(workload, path)
    assert to_jobs(workload, path, supported=ALL_FEATURES)
    if simulated:
        assert to_scenario(workload, path=path)
    else:
        with pytest.raises(ConfigError, match=named):
            to_scenario(workload, path=path)


def test_all_unsupported_fields_are_named_at_once(beside):
    with pytest.raises(ConfigError) as found:
        to_jobs(*beside(changed("spec.suspend", to=True, base=WHOLE)))
    assert all(name in found.value.message for name in ALL_FEATURES)


def test_an_empty_field_is_not_refused(beside):
    assert to_jobs(*beside(changed("spec.tasks.0.mounts", [], JOB)))


def test_the_deadline_and_the_time_to_live_become_times_of_the_job(beside):
    (job,) = to_jobs(*beside(WHOLE), supported=ALL_FEATURES)
    assert (job.time_limit, job.ttl) == (7200.0, 600.0)
    (job,) = to_jobs(*beside(JOB))
    assert (job.time_limit, job.ttl) == (None, None)
