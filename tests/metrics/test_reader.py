"""The reader of a replica's metrics survives whatever a job writes."""

import math
import os

import pytest

from headway.core.model.report import MOST
from headway.metrics.reader import KEPT, MAX_LOG, MAX_READ, MetricsReader, last_line


def read(folder, text):
    (folder / "reports.jsonl").write_text(text)
    reader = MetricsReader(folder, back=2**20)
    reader.listen()
    return reader, reader.report()


def test_invalid_reports_are_trouble_and_not_values(tmp_path):
    _, found = read(tmp_path, '{"step": 1, "loss": NaN}\nnonsense\n{"accuracy": 3}\n')
    assert (found.count, found.mean, found.trouble) == (1, 3.0, "invalid line in reports.jsonl")


def test_the_last_value_of_a_training_that_has_diverged_is_nan(tmp_path):
    reader, found = read(tmp_path, '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": NaN}\n')
    assert math.isnan(reader.value)
    assert (found.count, found.mean, found.trouble) == (1, 2.0, "reported the value nan")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"step": ' + "1" * 400 + "}", id="a number that overflows"),
        pytest.param("[" * 100_000, id="deep nesting"),
        pytest.param('{"trouble": ' + "[" * 20_000 + "]" * 20_000 + "}", id="deep trouble"),
        pytest.param('{"trouble": "\\ud800' + "x" * 1000 + '"}', id="half a surrogate pair"),
        pytest.param('{"trouble": {"\\ud800": 1}}', id="half a surrogate pair in a key"),
    ],
)
def test_an_invalid_report_does_not_hide_the_next(tmp_path, line):
    reader, found = read(tmp_path, line + '\n{"step": 7, "loss": 2.0}\n')
    assert (reader.step, found.mean) == (7, 2.0)
    assert 0 < len(found.trouble) <= 200
    assert found.trouble.encode()


@pytest.mark.parametrize("back", [0, 25, 26, 27])
def test_a_reader_that_starts_inside_a_line_begins_with_the_next_one(tmp_path, back):
    """Otherwise the rest of a valid report is invalid, and `loss 12.5` may be read as 2.5."""
    lines = '{"step": 1, "loss": 2.0}\n' + '{"step": 22, "loss": 12.5}\n'
    reports, log = tmp_path / "reports.jsonl", tmp_path / "out.log"
    for path in (reports, log):
        path.write_text(lines[:-1])
    with reports.open("a") as job:
        reader = MetricsReader(tmp_path, back=back)
        job.write('\n{"step": 3, "loss": 0.5}\n')
    reader.listen()
    found = reader.report()
    whole = [12.5] if back >= 26 else []
    assert (found.count, found.trouble) == (1 + len(whole), "")
    assert found.mean == sum([*whole, 0.5]) / (1 + len(whole))


def test_what_is_left_of_a_line_whose_end_was_skipped_is_not_joined_to_another_one(tmp_path):
    line, reader = '{"step": 22, "loss": 12.5}\n', MetricsReader(tmp_path)
    reports, log = tmp_path / "reports.jsonl", tmp_path / "out.log"
    for path, text in ((reports, line), (log, "loss: 12.5\n")):
        path.write_text(text[:-3])
    reader.listen()
    for path, text in ((reports, line), (log, "loss: 12.5\n")):
        with path.open("a") as job:
            job.write(text[-3:] + text * (MAX_READ // len(text) + 1))
    reader.listen()
    assert reader.flooded
    found = reader.report()
    assert (found.mean, found.trouble) == (12.5, "")


def printed(folder, text, pattern=None):
    (folder / "out.log").write_text(text)
    reader = MetricsReader(folder, pattern=pattern, back=2**20)
    reader.listen()
    return reader


def test_the_reader_says_where_the_metric_was_found(tmp_path):
    assert printed(tmp_path, "hello\n").found == ""
    seen = printed(tmp_path, "hello\n\tEpoch 1/9\x07 loss: 2.0\nEpoch 2/9 loss: 1.0\n")
    assert seen.found == 'loss in out.log, line "Epoch 1/9 loss: 2.0"'
    own = printed(tmp_path, "R=7 at 20\n", pattern=r"R=(\S+) at (?P<step>\d+)")
    assert own.found == 'loss in out.log by reports.pattern, line "R=7 at 20"'
    sdk, _ = read(tmp_path, '{"step": 1, "loss": 2.0}\n')
    assert sdk.found == "loss in reports.jsonl, by the SDK"


def test_reported_numbers_are_bounded(tmp_path):
    """The mean of 1e308 and -1e308 was minus infinity, which no journal line can hold."""
    reader = MetricsReader(tmp_path)
    (tmp_path / "out.log").write_text("loss: 1e308\nloss: -1e308\nloss: 1e308\n")
    reader.listen()
    heard = reader.report()
    assert heard.count == 3
    assert abs(heard.mean) <= MOST
    assert heard.high == reader.value == MOST


def test_a_report_without_an_end_is_not_kept_whole(tmp_path):
    reader = MetricsReader(tmp_path)
    with (tmp_path / "reports.jsonl").open("ab", 0) as file:
        for _ in range(20):
            file.write(b"x" * 100_000)
            reader.listen()
        assert tracked(reader) < 200_000
        file.write(b'\n{"step": 3, "loss": 0.5}\n')
    reader.listen()
    assert (reader.step, reader.value) == (3.0, 0.5)


def tracked(reader):
    """Bytes that a reader holds."""
    return sum(len(v) for v in vars(reader).values() if isinstance(v, bytes))


@pytest.mark.parametrize("name", ["out.log", "reports.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_is_not_read(tmp_path, name, kind):
    secret = tmp_path / "secret"
    secret.write_text('{"loss": 0.25}\nloss: 0.25\n')
    folder = tmp_path / "replica"
    folder.mkdir()
    make = {"pipe": os.mkfifo, "link": lambda p: p.symlink_to(secret), "folder": os.mkdir}
    make[kind](folder / name)
    reader = MetricsReader(folder, back=1000)
    reader.listen()
    assert reader.value is None
    assert last_line(folder) == ""


@pytest.mark.parametrize("moment", ["pread", "ftruncate"])
def test_output_printed_while_its_log_is_truncated_is_parsed_and_kept(
    tmp_path, monkeypatch, moment
):
    """Also if the job waits in `write` until the file is truncated."""
    path, real, late = tmp_path / "out.log", getattr(os, moment), ["loss: 0.5\n"]
    path.touch()
    os.truncate(path, MAX_LOG)
    with path.open("a") as job:
        job.write("\n")

    def slow(*words):
        done = real(*words)
        if moment == "ftruncate" or words[1] == KEPT:
            with path.open("a") as job:
                job.write(late.pop() if late else "")
        return done

    monkeypatch.setattr(os, moment, slow)
    reader = MetricsReader(tmp_path, back=2**20)
    reader.listen()
    reader.listen()
    assert reader.report().mean == 0.5
    assert "loss: 0.5\n" in path.read_text()
    assert "bytes were cut here" in path.read_text()


def test_a_log_that_grows_beyond_its_bound_while_it_is_truncated_is_truncated_again(
    tmp_path, monkeypatch
):
    """On a busy machine, a job can print that much between two calls of the reader."""
    path, real, late = tmp_path / "out.log", os.ftruncate, [MAX_LOG + 1]
    path.touch()
    os.truncate(path, MAX_LOG + 1)

    def slow(file, size):
        real(file, late.pop() if late else size)

    monkeypatch.setattr(os, "ftruncate", slow)
    reader = MetricsReader(tmp_path, back=2**20)
    reader.listen()
    assert path.stat().st_size > MAX_LOG
    assert reader.too_long
    reader.listen()
    assert path.stat().st_size < 2 * KEPT
