"""Claims of attempts of local replicas."""

import subprocess
from time import monotonic

import pytest

from headway.backend.local.launcher import BLANK, SHIM, Claim, claim_of


def test_claims_that_stay_blank_are_waited_for_once_not_one_by_one(tmp_path):
    for attempt in range(1, 6):
        (tmp_path / f"claim.{attempt}").write_text(BLANK)
    began = monotonic()
    assert [claim_of(tmp_path, attempt) for attempt in range(1, 6)] == [Claim()] * 5
    assert monotonic() - began < 6  # 10 s, if each takes 2 s


def test_an_attempt_without_a_claim_was_not_started(tmp_path):
    assert claim_of(tmp_path, 1) is None


@pytest.mark.parametrize(("when", "runs", "code"), [("shim.claimed", False, 143), ("", True, 0)])
def test_a_replica_that_is_asked_to_stop_before_it_begins_never_begins(tmp_path, when, runs, code):
    for name in ("free.1", "exit.1"):
        (tmp_path / name).write_text(BLANK)
    text = SHIM.replace(f"# failpoint {when}", "kill -TERM $$") if when else SHIM
    words = [str(tmp_path), "1", "/", "--", "touch", str(tmp_path / "ran")]
    subprocess.run(["/bin/sh", "-c", text, "headway", *words], check=True)
    assert ((tmp_path / "ran").exists(), (tmp_path / "exit.1").read_text().split()[0]) == (
        runs,
        str(code),
    )
