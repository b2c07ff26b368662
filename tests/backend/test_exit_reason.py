"""Why a replica failed, in words."""

import pytest

from headway.backend.exit_reason import exit_reason, is_permanent


@pytest.mark.parametrize(
    ("code", "said", "why"),
    [
        (127, "headway: 18: exec: pyhton: not found", "command not found: pyhton"),
        (127, "headway: line 18: exec: pyhton: not found", "command not found: pyhton"),
        (126, "headway: 18: exec: ./x: Permission denied",
         "exited with code 126: ./x: Permission denied"),
        (1, "headway: 18: exec: x: not found",
         "exited with code 1: headway: 18: exec: x: not found"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_start_is_named_without_the_words_of_the_shell(
    tmp_path, code, said, why
):
    (tmp_path / "out.log").write_text(f"{said}\n")
    assert exit_reason(code, tmp_path, oom_killed=False) == why


@pytest.mark.parametrize(
    ("said", "permanent"),
    [
        ("python: can't open file '/x/train.py': [Errno 2] No such file or directory", True),
        ("error: /x/python: PyTorch cannot be imported: no torch; pip install torch", True),
        ("error: worker-1 did not answer within 3 s", False),
    ],
)
def test_only_what_a_retry_cannot_repair_is_permanent(tmp_path, said, permanent):
    (tmp_path / "out.log").write_text(f"{said}\n")
    assert is_permanent(2, exit_reason(2, tmp_path, oom_killed=False)) is permanent
