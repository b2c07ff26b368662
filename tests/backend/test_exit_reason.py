"""Why a replica failed, in words."""

import pytest

from headway.backend.exit_reason import exit_reason


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
