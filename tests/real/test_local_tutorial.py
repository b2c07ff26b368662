"""The commands of the tutorial, in one shell, as a new user types them."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_commands_of_the_tutorial_work(tmp_path):
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(commands) >= 5
    script = "set -eu\n" + "".join(f"echo '== {i}'\n{block}" for i, block in enumerate(commands))
    beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": beside, "HEADWAY_DATA": str(tmp_path / "data")}
    env["COLUMNS"] = "120"
    ran = subprocess.run(
        ["/bin/bash", "-mc", script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = ran.stdout.split("== ")
    assert shown[2].split()[1:] == ["short", "middle", "long"]
    assert re.search(r"^long +(running|pending|starting)", shown[3], re.MULTILINE), shown[3]
    assert re.findall(r"^step \d+/120 ", shown[4], re.MULTILINE) != []
    assert "size" in shown[4]
    outcomes = dict(
        re.findall(
            r"^(\w+) +(succeeded|cancelled)", shown[5].rpartition("did not")[2], re.MULTILINE
        )
    )
    assert outcomes == {"short": "succeeded", "middle": "succeeded", "long": "cancelled"}
