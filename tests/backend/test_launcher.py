"""Claims of attempts of local replicas."""

from time import monotonic

from headway.backend.local.launcher import BLANK, Claim, claim_of


def test_claims_that_stay_blank_are_waited_for_once_not_one_by_one(tmp_path):
    for attempt in range(1, 6):
        (tmp_path / f"claim.{attempt}").write_text(BLANK)
    began = monotonic()
    assert [claim_of(tmp_path, attempt) for attempt in range(1, 6)] == [Claim()] * 5
    assert monotonic() - began < 6  # 10 s, if each takes 2 s


def test_an_attempt_without_a_claim_was_not_started(tmp_path):
    assert claim_of(tmp_path, 1) is None
