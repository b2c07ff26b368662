"""Everyday commands start quickly: they do not import what is slow."""

import os
import subprocess
import sys


def test_listing_jobs_imports_neither_pydantic_nor_numpy(tmp_path):
    env = {**os.environ, "HEADWAY_DATA": str(tmp_path)}
    words = [sys.executable, "-X", "importtime", "-m", "headway", "ps"]
    told = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stderr
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.splitlines()}
    assert "typer" in modules
    assert not modules & {"pydantic", "numpy", "starlette", "uvicorn", "kubernetes"}
