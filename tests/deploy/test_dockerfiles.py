"""The Dockerfiles and the compose example, as far as they can be checked without a registry."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headway.backend.docker.container import JOB

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "deploy" / "docker").glob("*.Dockerfile"))


def lines(path):
    text = path.read_text().replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def copied(path):
    """Sources and target of each copy from the checkout."""
    return [words[1:] for words in lines(path) if words[0] == "COPY" and "--from" not in words[1]]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_image_is_built_in_stages_from_a_small_base_and_runs_without_root(path):
    stages = [i for i, words in enumerate(lines(path)) if words[0] == "FROM"]
    assert len(stages) == 2
    assert {lines(path)[i][1] for i in stages} == {"python:3.11-slim"}
    last = {words[0]: words[1:] for words in lines(path)[stages[-1] :]}
    assert last["USER"] == ["1000:1000"]
    assert not {"ADD", "EXPOSE"} & set(last)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_files_of_an_image_exist_and_are_not_ignored(path):
    kept = {w[1:] for w in (ROOT / ".dockerignore").read_text().split() if w[0] == "!"}
    for *sources, _ in copied(path):
        for source in sources:
            assert (ROOT / source).exists()
            assert source.split("/")[0] in kept


def test_the_image_of_the_trainings_has_all_files_they_need(tmp_path):
    for source, target in copied(ROOT / "deploy" / "docker" / "workloads.Dockerfile"):
        there = tmp_path / target
        there.parent.mkdir(parents=True, exist_ok=True)
        put = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        put(ROOT / source, there)
    done = subprocess.run(
        [sys.executable, "-m", "headway.trainings", "gru", "--steps", "2", "--batches", "1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONVERBOSE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.splitlines()[-1].startswith("done: 2 steps")
    assert str(ROOT / "src") not in done.stderr


def test_the_compose_example_labels_the_jobs_to_adopt():
    services = yaml.safe_load((ROOT / "examples" / "docker-compose.yml").read_text())["services"]
    labelled = {name for name, s in services.items() if JOB in s.get("labels", {})}
    assert labelled == {"vae", "gru", "cnn"}
    assert services["headway"]["command"][:3] == ["adopt", "--label", JOB]
    assert {s["image"] for s in services.values()} == {"headway", "headway-workloads"}


def test_the_image_of_headway_can_run_what_the_manifests_start():
    """The operator needs the Kubernetes client, which is an extra."""
    (build,) = [w for w in lines(ROOT / "deploy" / "docker" / "headway.Dockerfile") if "venv" in w]
    assert '".[kubernetes]"' in build
