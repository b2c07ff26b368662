"""Everyday commands start quickly: they do not import what is slow."""

import subprocess
import sys

import pytest

SLOW = {"pydantic", "numpy", "starlette", "uvicorn", "kubernetes"}
POLICIES = "headway.policy.registry"


def imported_by(*words):
    """The modules that a command imports; it must succeed."""
    command = [sys.executable, "-X", "importtime", "-m", "headway", *words]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {line.rpartition("|")[2].strip() for line in told.splitlines()}


def packages(modules):
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("words", [("ps",), ("history",), ("wait",), ("logs", "--help")])
def test_commands_import_neither_pydantic_nor_numpy_where_nothing_runs(
    words, tmp_path, monkeypatch
):
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path))
    modules = imported_by(*words)
    assert "typer" in modules
    assert not packages(modules) & SLOW


def test_commands_to_a_server_import_neither_pydantic_nor_the_policies(serving):
    serving()
    for words in (
        ["submit", "--", "true"],
        ["wait", "true"],
        ["submit", "--name", "train", "--", "sleep", "3600"],
        ["ps"],
        ["history"],
        ["cancel", "train"],
    ):
        modules = imported_by(*words)
        assert not packages(modules) & SLOW, words
        assert POLICIES not in modules, words


def test_a_job_is_explained_without_pydantic(serving):
    serving()
    imported_by("submit", "--name", "train", "--", "true")
    imported_by("wait", "train")
    assert not packages(imported_by("explain", "train")) & SLOW


def test_json_is_printed_without_the_tables(serving):
    serving()
    assert "rich.table" not in imported_by("submit", "--", "true")
    assert "rich.table" in imported_by("ps", "--all")
    assert "rich.table" not in imported_by("ps", "--all", "--json")
