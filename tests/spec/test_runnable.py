"""Jobs of a workload as a platform runs them, and the workload as a run stores it."""

import json
from time import process_time

import pytest

from headway.errors import ConfigError
from headway.spec.arrivals import to_plain, to_yaml
from headway.spec.load import read_stored, read_workload
from headway.spec.runnable import to_jobs

HEAD = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}


def entry(name, **task):
    return {"name": name, "at": 0, "spec": {"tasks": [{"command": ["true"], **task}]}}


def test_a_working_directory_with_a_nul_is_refused(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(json.dumps({**HEAD, "jobs": [entry("x", workingDir="a\0b")]}))
    with pytest.raises(ConfigError, match="has a NUL in its working directory") as refused:
        to_jobs(read_workload(path), path)
    assert refused.value.where == str(path)


def cpu(read, path):
    """The shortest time of three."""
    times = []
    for _ in range(3):
        began = process_time()
        found = read(path)
        times.append(process_time() - began)
    return min(times), found


def test_a_stored_workload_is_read_much_faster_and_is_the_same(tmp_path):
    """A run of 10,000 jobs was resumed after 13 s, of which its workload took 5 s."""
    given, stored = tmp_path / "given.yaml", tmp_path / "stored.yaml"
    listed = [entry(f"j{i}", resources={"limits": {"memory": "1Gi"}}) for i in range(1000)]
    given.write_text(json.dumps({**HEAD, "nodes": [{"name": "a", "cpu": 1}], "jobs": listed}))
    as_yaml, workload = cpu(read_workload, given)
    stored.write_text(json.dumps(to_plain(workload), indent=1))
    as_json, found = cpu(read_stored, stored)
    assert found == workload == read_workload(stored)
    assert found.model_fields_set == workload.model_fields_set
    assert as_json < as_yaml / 2  # a ninth, of 10,000 jobs
    stored.write_text(to_yaml(workload))  # by an earlier version
    assert read_stored(stored) == workload


def test_a_stored_workload_that_is_damaged_is_refused_with_a_place(tmp_path):
    path = tmp_path / "stored.yaml"
    for text in ('{"kind": "Workload"', json.dumps({**HEAD, "jobs": 7}), "[" * 2000, ""):
        path.write_text(text)
        with pytest.raises(ConfigError) as refused:
            read_stored(path)
        assert str(path) in refused.value.where
