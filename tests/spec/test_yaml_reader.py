"""Limits of users' files: a small file cannot exhaust memory, time or the stack."""

import json
import os
import subprocess
import sys
from select import select
from threading import Thread

import pytest
from patience import wait_for

from headway.errors import ConfigError
from headway.sim.build import to_scenario
from headway.spec import bounded_file
from headway.spec.load import read_workload
from headway.spec.yaml_reader import load

JOB = "jobs: [{name: x, profile: {work: 5}}]\n"
HEAD = "apiVersion: headway.dev/v1alpha1\nkind: Workload\n"
MEMORY = 500 * 2**20


def levels(first, line, count):
    return first + "".join(line.format(this=i, last=i - 1) for i in range(1, count))


MERGES = levels(
    "models:\n  m0: &m0 {work: 1}\n",
    "  m{this}: &m{this} {{<<: [" + ", ".join(["*m{last}"] * 9) + "]}}\n",
    12,
)
ALIASES = levels("a0: &a0 [x]\n", "a{this}: &a{this} [" + ", ".join(["*a{last}"] * 10) + "]\n", 10)
CHAIN = levels("a0: &a0 [x]\n", "a{this}: &a{this} [*a{last}]\n", 40)
READS = """
import json, resource, sys
from pathlib import Path
from headway.errors import ConfigError
from headway.spec.load import read_workload
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
for line in sys.stdin:
    try: read_workload(Path(line.strip()))
    except ConfigError as error: print(json.dumps([error.message, error.where]), flush=True)
"""


@pytest.fixture(scope="module")
def reader():
    """A process of its own: the stack of libyaml can overflow, and memory is limited."""
    with subprocess.Popen(
        [sys.executable, "-c", READS, str(MEMORY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.mark.parametrize(
    ("body", "says", "place"),
    [
        ("name: " + "[" * 100_000 + "]" * 100_000, "more than 32 lists and mappings", ":3"),
        ("name: " + "{a: " * 50_000, "more than 32 lists and mappings", ":3"),
        ("a:\n" + "- " * 100_000, "more than 32 lists and mappings", ":4"),
        (CHAIN, "more than 32 lists and mappings", ":34"),
        (MERGES, "more than 400,000 values", ":10"),
        (ALIASES + "kind: *a9\n", "more than 400,000 values", ":9"),
        ("name: [" + "a," * 400_000 + "]", "more than 400,000 values", ":3"),
        ("name: &a [*a]\n", "alias 'a' is inside of what it refers to", ":3"),
        ("name: *nothing\n", "undefined alias", ":3"),
        ("name: 2026-99-99\n", "'2026-99-99' is not a valid timestamp", ":3"),
        ("name: !!timestamp x\n", "'x' is not a valid timestamp", ":3"),
        ("seed: !!int x\n", "'x' is not a valid int", ":3"),
        ("seed: !!bool x\n", "'x' is not a valid bool", ":3"),
        ("seed: !!float x\n", "'x' is not a valid float", ":3"),
        ("seed: " + "9" * 5000, "9…' is not a valid int", ":3"),
        ("seed: 0x" + "f" * 5000, "f…' is out of range: an integer has at most 64 bits", ":3"),
        ("name: a\x00b\n", "invalid YAML", ":3"),
    ],
)  # fmt: skip
def test_a_file_over_a_limit_is_refused_with_the_limit_and_its_place(
    tmp_path, reader, body, says, place
):
    path = tmp_path / "w.yaml"
    path.write_text(HEAD + body, encoding="utf-8")
    print(path, file=reader.stdin, flush=True)
    wait_for(lambda: select([reader.stdout], [], [], 0)[0], patience=20)
    message, where = json.loads(reader.stdout.readline() or f'["died", "{reader.wait()}"]')
    assert says in message
    assert where == f"{path}{place}"
    assert len(message) + len(where) < 300


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("jobs:\n\t- {}\n", "indent with spaces, not tabs"),
        ("jobs:\n  - name: x\n\t  at: 3\n", "indent with spaces, not tabs"),
        ("jobs:\n  - {name: x\n  - {name: y}\n", "close the bracket of line 4"),
        ("name: 'x\nnodes: 2\njobs: []\n", "close the quotation mark of line 3"),
        ("jobs:\n  - name: x\n    at 3\n    model: gru\n", "write 'key: value' in line 5"),
        ("name: @x\n", "quote text that starts with '@'"),
        ("jobs:\n  - name: x\n   at: 3\n", "check the indentation"),
    ],
)
def test_invalid_yaml_has_a_remedy(body, hint):
    with pytest.raises(ConfigError) as caught:
        load(HEAD + body, "w.yaml")
    assert caught.value.hint == hint


def test_a_large_ordinary_workload_is_read(tmp_path):
    path = tmp_path / "w.yaml"
    entry = "  - {{name: job-{0}, at: {0}, profile: {{work: 5}}}}\n"
    path.write_text(HEAD + "jobs:\n" + "".join(entry.format(i) for i in range(2000)))
    assert len(read_workload(path).jobs) == 2000


def test_aliases_and_merge_keys_within_the_limits_work():
    root, data = load("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n", "f")
    assert root is not None
    assert data == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}


def test_a_file_is_read_up_to_its_limit(tmp_path, monkeypatch):
    """Also one without a size: a pipe, as of `headway run <(generate)`."""
    monkeypatch.setattr(bounded_file, "MAX_BYTES", 2**16)
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write(size):
        with path.open("w") as pipe:
            pipe.write(HEAD + JOB + "#" * size)

    for size in (10, 2**15):
        writer = Thread(target=write, args=(size,))
        writer.start()
        assert len(read_workload(path).jobs) == 1
        writer.join()
    monkeypatch.setattr(bounded_file, "MAX_BYTES", 100)
    large = tmp_path / "large.yaml"
    large.write_text(HEAD + JOB + "#" * 100)
    with pytest.raises(ConfigError, match="larger than the limit of"):
        read_workload(large)


def test_a_path_with_a_nul_is_refused(workload):
    path = workload('jobs: [{name: x, profile: {work: 5}, manifest: "a\\0b"}]\n')
    with pytest.raises(ConfigError, match="cannot read this file: embedded null byte"):
        to_scenario(read_workload(path), path=path)
