"""The commands of the tutorial, in one shell, as a new user types them."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import on_terminal
import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh( terminal)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def installed(tmp_path):
    """Install a wheel into a virtual environment of its own. Its dependencies are those of this
    environment: to download them would take a minute. Return its folder of programs.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path / "dist")]
    subprocess.run([*build, str(ROOT)], check=True)
    [wheel] = (tmp_path / "dist").iterdir()
    venv.create(tmp_path / "venv", symlinks=True)
    programs = tmp_path / "venv" / "bin"
    into = [*pip, "--python", str(programs / "python"), "install", "-q", "--no-deps", str(wheel)]
    subprocess.run(into, check=True)
    [packages] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # The `.pth` file of the editable Headway there has no effect here.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = [programs / "python", "-c", "import headway; print(headway.__file__)"]
    assert subprocess.check_output(where, text=True).startswith(str(packages))
    return programs


def test_the_commands_of_the_tutorial_work(installed, tmp_path):
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 7
    press = f"'{sys.executable}' '{on_terminal.__file__}' long q "
    script = "set -eu\n"
    for i, (terminal, block) in enumerate(blocks):
        script += f"echo '== {i}'\n{press if terminal else ''}{block}"
    env = {**os.environ, "PATH": f"{installed}:{os.environ['PATH']}", "COLUMNS": "120"}
    env |= {"HEADWAY_DATA": str(tmp_path / "data"), "TERM": "xterm"}
    ran = subprocess.run(
        ["/bin/bash", "-mc", script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = dict(re.findall(r"^== (\d)\n(.*?)(?=^== |\Z)", ran.stdout, re.DOTALL | re.MULTILINE))
    assert re.search(r"^data directory +ok", shown["0"], re.MULTILINE), shown["0"]
    assert shown["2"].split() == ["short", "middle", "long"]
    assert re.search(r"^long +(running|pending|starting)", shown["3"], re.MULTILINE), shown["3"]
    assert "sorted by submission" in shown["4"]
    assert "e explain" in shown["4"]
    assert re.findall(r"^step \d+/120 ", shown["5"], re.MULTILINE) != []
    assert "size" in shown["5"]
    ended = r"^(\w+) +(succeeded|cancelled)"
    outcomes = dict(re.findall(ended, shown["6"].rpartition("did not")[2], re.MULTILINE))
    assert outcomes == {"short": "succeeded", "middle": "succeeded", "long": "cancelled"}
