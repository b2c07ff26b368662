"""Parse the metric and the progress from the logs of unmodified training scripts.

A line is parsed if it names the metric: for the value of the metric (`LogParser._value`) and for
the progress. Scripts count steps, batches of an epoch, or epochs; `_Progress` converts them to one
number, which grows during the training.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import re2

_MAX_LINE = 8192  # bytes of a line that are parsed
_MAX_PROGRAM = 1000  # instructions of a user's pattern: at most 15 ms a line
_MAX_GROUPS = 16
_ENDS = bytes.maketrans(b"\r\b", b"\n\n")  # progress bars redraw with \r, Keras also with \b
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+\x07?|[ -/]*+[0-~])")

# All patterns match lower-cased text. Repetitions are possessive (`++`, `*+`) or short, so that the
# time is linear in the length of any line; a pattern starts with a literal where possible, with the
# lookbehind after it, so that the search jumps to the next occurrence of the literal.
_COUNT = r"\d{1,15}+(?!\d)"
_OF = rf"\s*+(?:/|of)\s*+(?P<of>{_COUNT})"
# From `epoch` or `step` to its number:  ` 3/10`  `: [3`  `': 1.25`; but not 50ms, 12%, 0:05:10
_AT = rf"[\"':=#\[\s]*+(?P<at>{_COUNT}(?P<decimals>\.\d++)?+)(?![\w%]|:\d)(?:{_OF})?"
# 1  1.  .5  -2.5e+2  nan  -inf; but not the start of 10/300, 1,234 or 1.2.3
_NUMBER = r"[-+]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?|nan|inf)(?!\w|[./]\d|,\d{3}(?!\d))"
# From a name to its number:  `: 1`  `= 1`  ` 1`  `': 1`  ` | 1`  `: '1'`  ` tensor(1`
_IS = r"(?:[\"']?\s*+(?:[:=|]|->)\s*+|\s++)(?:[a-z][\w.]{0,15}+\()?[\[\"']?"
# epoch 3/10    epoch: [3][    'epoch': 1.25    epoch 3:  45%|
_EPOCH = re.compile(
    rf"epoch(?<![a-z_/]epoch)(?<!(?:per|est) epoch)(?:\(train\))?{_AT}(?P<bar>:\s*+\d++%\|)?"
)
# step 10/3000    global_step=10    step [100/600]    iteration   10 of 500    'step': 10
_STEP = re.compile(
    r"[si]t(?:(?<![\w/]..)|(?<=global_..)|(?<=train_..))(?<!per ..)"
    rf"(?:(?<=st)ep|(?<=it)(?:er(?:ation)?)?)s?{_AT}"
)
# [640/60000 (1%)]    12%|#  | 60/500 [00:05    90/938 [=>..] (at the start)    batch 10/300
_PART = re.compile(
    rf"(?:^\W*+|[\[|]\s*+|batch[ :#\[]*+)(?P<at>{_COUNT}){_OF}(?![\w/]|[.:]\d| \d\d?:\d\d)"
)
# "total_steps": 50    max_steps=50    num_train_steps: 50    "num_epochs": 10
_TOTAL = re.compile(
    r"(?<![\w/])(?:total|max|num)(?:_train(?:ing)?)?[_ ]"
    rf"(?:(?P<epochs>epochs)|(?:steps|iter(?:ation)?s)){_IS}(?P<of>{_COUNT})(?![\w%]|[.,]\d)"
)
# [0/5][10/1583]    [1,  2000]  (an epoch without the word, before the position in it)
_PAIR = re.compile(r"^\[(?:(\d++/\d++)\]\s?(?=\[)|(\d++),(?=\s*+\d++\]))")
# Measured on held-out data:  val_loss  test set: average loss  eval/loss
_HELD_OUT = r"(?:val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?)"
_HELD_OUT_NAME = re.compile(rf"(?<![a-z])(?:{_HELD_OUT}|dev)(?![a-z])(?:(?!train)[^,;\d])*$")
_HELD_OUT_LINE = re.compile(rf"\W*+{_HELD_OUT}(?![a-z_/])")
# The end of a longer name:  train_loss  training loss  train/loss
_QUALIFIED = re.compile(r"[a-z] |.?[_/.\-]")


@dataclass(frozen=True, slots=True)
class ParsedMetric:
    """`step` is the global step if the line has one, else the epoch, possibly fractional; `value`
    may be nan or inf; `total` is the total number of steps if the line has it.
    """

    step: float | None = None
    value: float | None = None
    total: float | None = None


class LogParser:
    r"""Parses the bytes of a log; keeps the unfinished last line and the last epoch.

    >>> LogParser().feed(b"Train Epoch: 2 [15000/60000 (25%)]\tLoss: 2.29\nEpoch 2 took 3 s\n")
    [ParsedMetric(step=1.25, value=2.29, total=None)]
    >>> LogParser(pattern=r"R=(\S+) at (?P<step>\d+)").feed(b"R=7 at 20\n")
    [ParsedMetric(step=20.0, value=7.0, total=None)]
    """

    def __init__(self, metric: str = "loss", pattern: str | None = None) -> None:
        if not metric.strip():
            raise ValueError("the name of the metric is empty")
        name = metric.strip().encode(errors="replace").lower()
        self._name, self._named = name, _named(name.decode())
        self._synonym = b"cost" if name == b"loss" else name  # as in TensorFlow 1 tutorials
        self._held_out = _HELD_OUT_NAME.search(name.decode()) is not None
        self._pattern = None if pattern is None else _compiled(pattern)
        self._ends = _ENDS.lower() if pattern is None else _ENDS
        self._progress = _Progress()
        self._rest = self._printed = b""
        """The last line, which is not finished; as it was printed, until there is an example."""
        self.example = ""
        """The first line that had a value."""

    def skip(self) -> None:
        """Forget the line that has not ended: the rest of it is not fed."""
        self._rest = b""

    def feed(self, data: bytes) -> list[ParsedMetric]:
        *lines, rest = (self._rest + data.translate(self._ends)).split(b"\n")
        self._rest = rest[:_MAX_LINE]
        parse = self._parse_metric if self._pattern is None else self._parse_pattern
        found = [parse(line[:_MAX_LINE]) for line in lines]
        if not self.example:
            self._find_example(data, found)
        return [metric for metric in found if metric]

    def _find_example(self, data: bytes, found: list[ParsedMetric | None]) -> None:
        *lines, rest = (self._printed + data.translate(_ENDS)).split(b"\n")
        self._printed = rest[:_MAX_LINE]
        first = next((i for i, metric in enumerate(found) if metric), None)
        if first is not None:
            self.example, self._printed = _text(lines[first][:_MAX_LINE]).strip(), b""

    def _parse_metric(self, line: bytes) -> ParsedMetric | None:
        if self._name not in line:
            if self._synonym in line:
                line = line.replace(self._synonym, self._name)
            elif b"epoch" not in line:
                return None  # most lines end here
        text = _text(line)
        value = self._value(text)
        if value is None:
            self._progress.note(text)
            return None
        step, total = self._progress.reach(text)
        return ParsedMetric(step, value, total)

    def _parse_pattern(self, line: bytes) -> ParsedMetric | None:
        text = _text(line)
        found = self._pattern.search(text) if self._pattern else None
        groups = found.groupdict() if found else {}
        value = _float(groups.get("value", found[1])) if found else None
        if value is None:
            self._progress.note(text.lower())
            return None
        step, total = self._progress.reach(text.lower())
        if "step" in groups:
            step, total = _float(groups["step"]), None
        return ParsedMetric(step, value, _float(groups.get("total")) or total)

    def _value(self, text: str) -> float | None:
        """Return the value of the exact name, else of the first name that ends with it. Held-out
        metrics (`val_loss`) do not count.
        """
        if "train_runtime" in text:
            return None  # Hugging Face's last line has the mean of the whole run
        second = None
        held_out = not self._held_out and _HELD_OUT_LINE.match(text)
        for found in islice(self._named.finditer(text), 16):  # more are noise
            before = text[max(0, found.start() - 40) : found.start()]
            if held_out and "train" not in before:
                continue
            if not self._held_out and _HELD_OUT_NAME.search(before):
                continue
            if not _QUALIFIED.fullmatch(before[-2:]):
                return float(found["value"])
            second = found if second is None else second
        return float(second["value"]) if second else None


@dataclass(slots=True)
class _Progress:
    """Converts steps, positions in an epoch, and epochs to one growing number."""

    epoch: float | None = None
    epochs: float | None = None
    first: float = 1.0  # number of the first epoch
    in_parts: bool = False  # whether a line had a position in an epoch
    count: float | None = None  # the last printed step,
    count_epoch: float | None = None  # its epoch,
    before: float = 0.0  # and the steps before the counter was reset

    def note(self, text: str) -> tuple[float | None, str]:
        """Store the epoch of a line; return it, and the rest of the line."""
        if text.startswith("["):
            text = _PAIR.sub(r"epoch \1\2 step", text)
        found = _EPOCH.search(text) if "epoch" in text else None
        if found is None:
            return None, text
        rest = text[: found.start()] + text[found.end() :]
        if found["decimals"]:  # counts as a step: {'loss': 0.5, 'epoch': 1.25}
            return None, f"{rest} step {found['at']}"
        self.epoch = epoch = float(found["at"])
        self.epochs = _float(found["of"]) or self.epochs
        if epoch == 0 or (found["bar"] and not found["of"]):  # as Lightning counts
            self.first = 0.0
        return epoch, rest

    def reach(self, text: str) -> tuple[float | None, float | None]:
        """Return the step and the total of a line, or None."""
        text, total = self._totals(text)
        epoch, rest = self.note(text)
        found = _STEP.search(rest) or (_PART.search(rest) if "/" in rest else None)
        if found is None:
            return (None, None) if epoch is None else (self._whole(epoch), self.epochs)
        at, of = float(found["at"]), _float(found["of"]) or None
        if of and self.epoch is not None:
            self.in_parts = True
            return self.epoch - self.first + min(at / of, 1.0), self.epochs
        step = self._steps(at)
        return step, total or (None if self.before else of)

    def _totals(self, text: str) -> tuple[str, float | None]:
        """Store the number of epochs that a line has under a name of its own; return the rest of
        the line, and the number of steps.
        """
        total = None
        if "total" in text or "max" in text or "num" in text:
            for found in islice(_TOTAL.finditer(text), 4):
                if found["epochs"]:
                    self.epochs = float(found["of"])
                else:
                    total = float(found["of"])
            text = _TOTAL.sub("", text, 4)
        return text, total

    def _whole(self, epoch: float) -> float:
        """Return the step of an epoch's summary line, which may follow its parts or its steps."""
        if self.in_parts:
            return epoch - self.first + 1
        return epoch if self.count is None else max(epoch, self.before + self.count)

    def _steps(self, count: float) -> float:
        """Return the total of a counter that is reset in each epoch. Without an epoch, the counter
        counts as reset if it falls by half; smaller drops come from interleaved workers.
        """
        last, epoch, then = self.count or 0.0, self.epoch, self.count_epoch
        later = epoch is not None and then is not None and epoch > then
        if count <= last if later else epoch is None and count < last / 2:
            self.before += last
        self.count, self.count_epoch = count, epoch
        return self.before + count


def _text(line: bytes) -> str:
    text = line.decode(errors="replace")
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def _float(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


@lru_cache
def _named(name: str) -> re.Pattern[str]:
    """Return the pattern of a name, as a word or the end of one, and its number."""
    word = re.escape(name)
    return re.compile(rf"{word}(?<![a-z0-9]{word}){_IS}(?P<value>{_NUMBER})")


def _compiled(pattern: str) -> Any:
    """Compile a user's pattern. RE2 does not backtrack: its time is linear in the length of the
    line, and at most proportional to the size of the compiled program.
    """
    options = re2.Options()
    options.log_errors, options.max_mem = False, 2**20
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else "invalid"
        about = "look-around and back-references are not supported"
        raise ValueError(f"invalid regular expression: {why} ({about})") from None
    except UnicodeEncodeError:
        raise ValueError("invalid regular expression: not valid Unicode") from None
    if not 1 <= compiled.groups <= _MAX_GROUPS:
        most = f"it has {compiled.groups} groups, the limit is {_MAX_GROUPS}"
        raise ValueError(most if compiled.groups else "it has no group: put the value in (...)")
    if compiled.programsize > _MAX_PROGRAM:
        raise ValueError(
            f"it is too large: {compiled.programsize} instructions, the limit is {_MAX_PROGRAM}; "
            "use * instead of a large {…}"
        )
    return compiled
