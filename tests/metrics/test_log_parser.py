"""The logs of training scripts are parsed, in bounded time and without changes to the scripts."""

import math
from itertools import pairwise
from random import Random
from time import perf_counter, process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.metrics.log_parser import LogParser, ParsedMetric


def heard(text, metric="loss", pattern=None):
    return LogParser(metric, pattern).feed((text + "\n").encode())


def value(text, metric="loss"):
    said = heard(text, metric)
    return said[0].value if said else None


def place(text):
    (said,) = heard(text)
    return said.step, said.total


VALUES = {
    "loss: 0.1234": 0.1234,
    "loss=0.1234": 0.1234,
    "loss = 0.1234": 0.1234,
    "Loss 0.12": 0.12,
    "LOSS: 2.29": 2.29,
    "Minibatch Loss= 26.3": 26.3,
    "training loss 0.3": 0.3,
    "train_loss=0.5": 0.5,
    "train/loss: 0.5": 0.5,
    "Average loss: 164.5": 164.5,
    "{'loss': 0.5, 'acc': 0.9}": 0.5,
    '{"acc": 0.9, "loss":0.5}': 0.5,
    "{'loss': '0.5'}": 0.5,
    "|    loss      | 0.25    |": 0.25,
    "Epoch: 0001 cost= 29.8": 29.8,
    "cost 7, loss 3": 3,
    "cost 7 and no loss": None,
    "Step 1000: Generator Loss: 3.2, Discriminator Loss: 0.1": 3.2,
    "train_loss=1 total loss 2 loss=3": 3,
    "val_loss: 1 - loss: 2": 2,
    "Train Loss: 0.5 | Val Loss: 0.4": 0.5,
    "Validation Loss: 0.4, Training Loss: 0.5": 0.5,
    "step 250: train loss 1.9, val loss 2.0": 1.9,
    "accuracy: 0.9 - loss: 0.35 - val_accuracy: 0.97 - val_loss: 0.09": 0.35,
    "Loss 6.9e+00 (7.0e+00)": 6.9,
    "lm loss: 1.0E+01 | loss scale: 4294967296.0": 10,
    "latest loss 0.5": 0.5,
    "\x1b[32mloss\x1b[0m: \x1b[1m0.5\x1b[0m": 0.5,
    "\x1b]0;title\x07lo\x1bMss and loss\x1b(B\x1b[m: 0.5": 0.5,
    "lossD: 1": None,
    "Loss_D: 1 Loss_G: 2": None,
    "train_loss_step=0.5": None,
    "gloss: 1": None,
    "val_loss: 0.5": None,
    "valid_loss=0.5": None,
    "validation loss 0.5": None,
    "test loss: 0.5": None,
    "'eval_loss': 0.5": None,
    "val/loss 0.5": None,
    "Test set: Average loss: 0.05, Accuracy: 9837/10000 (98%)": None,
    "====> Test set loss: 105.4": None,
    "Test: [ 10/196]\tTime 0.1 (0.2)\tLoss 6.9e+00 (7.0e+00)": None,
    "Validation: 50%|##  | 5/10 [00:01<00:01, loss=0.5]": None,
    "{'train_runtime': 12.3, 'train_loss': 0.45, 'epoch': 3.0}": None,
    "the loss is small": None,
    "loss": None,
}


@pytest.mark.parametrize(("line", "wanted"), VALUES.items(), ids=VALUES)
def test_the_loss_is_found_and_nothing_else_is_taken_for_it(line, wanted):
    assert value(line) == wanted


NUMBERS = {
    "1": 1,
    "1.": 1,
    ".5": 0.5,
    "1e-3": 0.001,
    "-2.5E+2": -250,
    "+3": 3,
    "inf": math.inf,
    "-inf": -math.inf,
    "tensor(0.5321, grad_fn=<NllLossBackward0>)": 0.5321,
    "tensor([0.5], device='cuda:0')": 0.5,
    "np.float32(0.5)": 0.5,
    "0.5.": 0.5,
    "12%": 12,
    "1,234.5": None,
    "10/300": None,
    "1.2.3": None,
    "5ms": None,
    "information": None,
    "none": None,
}


@pytest.mark.parametrize(("number", "wanted"), NUMBERS.items(), ids=NUMBERS)
@pytest.mark.parametrize("separator", [": ", "=", " "], ids=["colon", "equals", "space"])
def test_numbers_are_read_as_scripts_write_them(separator, number, wanted):
    assert value(f"loss{separator}{number}") == wanted


@pytest.mark.parametrize("number", ["nan", "NaN", "-nan"])
def test_a_loss_that_is_not_finite_is_reported(number):
    assert math.isnan(value(f"loss: {number}"))


@pytest.mark.parametrize(
    ("metric", "line", "wanted"),
    [
        ("accuracy", "accuracy: 0.91", 0.91),
        ("accuracy", "acc=0.91", None),
        ("accuracy", "loss 0.2, Training Accuracy= 0.125", 0.125),
        ("accuracy", "val_accuracy: 0.9", None),
        ("accuracy", "cost 3", None),
        ("val_loss", "loss: 1 - val_loss: 2", 2),
        ("val_loss", "Validation: val_loss: 2", 2),
        ("Test Loss", "test loss: 2", 2),
        ("Loss_D", "[0/5][10/100] Loss_D: 1.5 Loss_G: 5", 1.5),
        ("c++ (x)", "c++ (x): 3", 3),
    ],
)
def test_the_metric_asked_for_is_the_one_that_counts(metric, line, wanted):
    assert value(line, metric) == wanted


PLACES = {
    "step 10": (10, None),
    "Step: 10": (10, None),
    "step=10": (10, None),
    "global_step 10": (10, None),
    "trainer/global_step: 10": (10, None),
    "iter 10": (10, None),
    "Iter 1280": (1280, None),
    "iteration 10": (10, None),
    "iteration      10/  500": (10, 500),
    "step 10/3000": (10, 3000),
    "step 10 of 3000": (10, 3000),
    "[10/3000]": (10, 3000),
    "Batch 10/300": (10, 300),
    "Epoch 3/10": (3, 10),
    "Epoch: 3": (3, None),
    "Epoch: 0001": (1, None),
    "Epoch [3/10]": (3, 10),
    "Epoch [3/10], Step [300/600]": (2.5, 10),
    "Epoch 3/10, step 1": (1, None),
    "Epoch: [0][ 10/100]": (0.1, None),
    "[Epoch 0/200] [Batch 10/100]": (0.1, 200),
    "[1/5][10/100]": (0.1, 5),
    "[2,  2000]": (2000, None),
    "Train Epoch: 2 [15000/60000 (25%)]\t": (1.25, None),
    "12%|█▏   | 60/500 [00:05<00:40, 10.9it/s]": (60, 500),
    "Epoch 3:  45%|████▌     | 47/94 [00:01<00:01, 40.1it/s, v_num=0]": (3.5, None),
    "Epoch 3/10:  45%|████▌     | 47/94 [00:01<00:01, 40.1it/s]": (2.5, 10),
    "90/938 [=>......] - ETA: 1s": (90, 938),
    "{'epoch': 1.25}": (1.25, None),
    '{"epoch": 1.25, "step": 50}': (50, None),
    "nothing": (None, None),
    "2ms/step 0.5s/it": (None, None),
    "Step: 50ms": (None, None),
    "time per epoch: 12": (None, None),
    "lr_step=30 num_epoch=3": (None, None),
    "01/05 10:00:00": (None, None),
    "2024/01/05": (None, None),
    "best epoch 3": (None, None),
    "0/0 [..": (0, None),
}


@pytest.mark.parametrize(("line", "wanted"), PLACES.items(), ids=PLACES)
def test_the_position_in_the_training_is_found(line, wanted):
    assert place(f"{line} loss 0.5") == pytest.approx(wanted)


def bar(at, of):
    return f"{100 * at // of:3}%|{'█' * (10 * at // of):10}| {at}/{of} [00:05<00:40, 10.9it/s"


def keras(end, start, bold=""):
    """Three epochs, redrawn in place, with the header on a line of its own."""
    return [
        text
        for epoch in (1, 2, 3)
        for text in (
            f"Epoch {epoch}/3\n",
            *(f"{start}{bold}{at}/90 {end} - loss: {{}}" for at in (1, 30, 60, 90)),
            " - val_loss: 0.01 - val_accuracy: 0.99\n",
        )
    ]


def epochs(*texts, count=3, first=1):
    return [t.replace("EPOCH", str(e)) for e in range(first, first + count) for t in texts]


# Each style: a log in which {} stands for the next loss, the steps, and the last total.
thirds = [e + part / 3 for e in range(3) for part in (1, 2, 3)]
LOGS = {
    "tensorflow-1-iterations": (
        [
            f"Iter {128 * n}, Minibatch Loss= {{}}, Training Accuracy= 0.12500\n"
            for n in range(1, 7)
        ],
        [128 * n for n in range(1, 7)],
        None,
    ),
    "tensorflow-1-epochs": (
        [*epochs("Epoch: 000EPOCH cost= {}\n"), "Optimization Finished!\n"],
        [1, 2, 3],
        None,
    ),
    "tensorflow-1-gan": (
        ["Step 1: Generator Loss: {}, Discriminator Loss: 9\n", "Step 50: Generator Loss: {}\n"],
        [1, 50],
        None,
    ),
    "pytorch-mnist": (
        epochs(
            *(f"Train Epoch: EPOCH [{n}/600 ({n // 6}%)]\tLoss: {{}}\n" for n in (200, 400, 600)),
            "\nTest set: Average loss: 0.0499, Accuracy: 9837/10000 (98%)\n\n",
        ),
        thirds,
        None,
    ),
    "pytorch-vae": (
        epochs(
            "Train Epoch: EPOCH [0/600 (0%)]\tLoss: {}\n",
            "Train Epoch: EPOCH [300/600 (50%)]\tLoss: {}\n",
            "====> Epoch: EPOCH Average loss: {}\n====> Test set loss: 105.4\n",
        ),
        [0, 0.5, 1, 1, 1.5, 2, 2, 2.5, 3],
        None,
    ),
    "pytorch-imagenet": (
        epochs(
            "Epoch: [EPOCH][  1/4]\tTime  0.5 ( 0.7)\tLoss {} (7.0e+00)\n",
            "Epoch: [EPOCH][  3/4]\tTime  0.5 ( 0.7)\tLoss {} (7.0e+00)\n",
            "Test: [ 1/2]\tTime  0.1 ( 0.2)\tLoss 6.9e+00 (7.0e+00)\n",
            first=0,
        ),
        [0.25, 0.75, 1.25, 1.75, 2.25, 2.75],
        None,
    ),
    "pytorch-quickstart": (
        epochs(
            "Epoch EPOCH\n-------------------------------\n",
            *(f"loss: {{}}  [{n:>5d}/60000]\n" for n in (20000, 40000, 60000)),
        ),
        thirds,
        None,
    ),
    "pytorch-cifar": (
        epochs("[EPOCH,  2000] loss: {}\n", "[EPOCH,  4000] loss: {}\n"),
        [2000, 4000, 6000, 8000, 10000, 12000],
        None,
    ),
    "pytorch-dcgan": (
        epochs("[EPOCH/3][0/100]\tLoss: {}\n", "[EPOCH/3][50/100]\tLoss: {}\n", first=0),
        [0, 0.5, 1, 1.5, 2, 2.5],
        3,
    ),
    "epoch-and-step-of": (
        epochs(*(f"Epoch [EPOCH/3], Step [{n}/600], Loss: {{}}\n" for n in (200, 400, 600))),
        thirds,
        3,
    ),
    "epoch-and-batch-then-summary": (
        epochs(
            "Epoch EPOCH Step 0 Loss {}\n", "Epoch EPOCH Step 90 Loss {}\nEpoch EPOCH Loss {}\n"
        ),
        [0, 90, 90, 90, 180, 180, 180, 270, 270],
        None,
    ),
    "epochs-from-zero-then-summary": (
        epochs("epoch EPOCH step 5/10 loss {}\n", "epoch EPOCH loss {}\n", first=0),
        [0.5, 1, 1.5, 2, 2.5, 3],
        None,
    ),
    "global-step-and-epoch": (
        [f"epoch {n // 3} step {10 * n} loss {{}}\n" for n in range(9)],
        [10 * n for n in range(9)],
        None,
    ),
    "step-of": ([f"step {n}/300 | loss {{}}\n" for n in (1, 150, 300)], [1, 150, 300], 300),
    "tqdm": ([f"\r{bar(n, 500)}, loss={{}}, v_num=3]" for n in (1, 250, 500)], [1, 250, 500], 500),
    "tqdm-anew-each-epoch": (
        [f"\r{bar(n, 50)}, loss={{}}]" for _ in range(3) for n in (10, 30, 50)],
        [10, 30, 50, 60, 80, 100, 110, 130, 150],
        None,
    ),
    "tqdm-with-epochs": (
        epochs(*(f"\rEpoch EPOCH/3: {bar(n, 60)}, loss={{}}]" for n in (20, 40, 60))),
        thirds,
        3,
    ),
    "lightning": (
        epochs(
            "\rEpoch EPOCH:   0%|          | 0/90 [00:00<?, ?it/s, v_num=0]",
            *(f"\rEpoch EPOCH: {bar(n, 90)}, v_num=0, train_loss={{}}]" for n in (30, 60, 90)),
            "\n\rValidation DataLoader 0: 100%|██████████| 5/5 [00:00<00:00, 90it/s]\x1b[A",
            first=0,
        ),
        thirds,
        None,
    ),
    "keras-2": (
        keras("[=>...........] - ETA: 1s", "\b" * 70 + "\r ", ""),
        [e + n / 90 for e in range(3) for n in (1, 30, 60, 90)],
        3,
    ),
    "keras-3": (
        keras("━━━\x1b[0m \x1b[1m1s\x1b[0m 2ms/step - accuracy: 0.9", "\r\x1b[1m", "\x1b[37m"),
        [e + n / 90 for e in range(3) for n in (1, 30, 60, 90)],
        3,
    ),
    "hugging-face": (
        [
            f"\r 10%|█   | 5/50 [00:01<00:10]\r{{'loss': {{}}, 'grad_norm': 1.2, 'epoch': {e}}}\n"
            for e in (0.5, 1.0, 1.25, 2.0)
        ],
        [0.5, 1, 1.25, 2],
        None,
    ),
    "json-lines": (
        [f'{{"step": {n}, "epoch": {n / 100}, "loss": {{}}}}\n' for n in (10, 20, 30)],
        [10, 20, 30],
        None,
    ),
    "json-lines-with-the-total": (
        [f'{{"step": {n}, "total_steps": 50, "loss": {{}}}}\n' for n in (10, 20, 30)],
        [10, 20, 30],
        50,
    ),
    "the-total-before-the-step": (
        [f"num_train_steps=3000 step={n} loss={{}}\n" for n in (1, 150)],
        [1, 150],
        3000,
    ),
    "total-steps-in-words": (
        [f"total steps: 90, max epochs: 3, step: {n}, loss: {{}}\n" for n in (1, 60)],
        [1, 60],
        90,
    ),
    "json-lines-with-the-number-of-epochs": (
        [f'{{"epoch": {n}, "num_epochs": 3, "loss": {{}}}}\n' for n in (1, 2, 3)],
        [1, 2, 3],
        3,
    ),
    "other-numbers-are-no-total": (
        [f"num_steps: 4.5 maximum_steps: 7 step: {n} loss: {{}}\n" for n in (1, 2)],
        [1, 2],
        None,
    ),
}


@pytest.mark.parametrize(("log", "steps", "total"), LOGS.values(), ids=LOGS)
def test_a_whole_log_is_parsed_and_its_steps_never_decrease(log, steps, total):
    losses = iter(2 / n for n in range(1, 100))
    text = "".join(t.replace("{}", f"{next(losses):.4f}") if "{}" in t else t for t in split(log))
    said = LogParser().feed(text.encode() + b"\n")
    assert [s.step for s in said] == pytest.approx(steps)
    assert all(a.step <= b.step for a, b in pairwise(said))
    assert [s.value for s in said] == [round(2 / n, 4) for n in range(1, len(steps) + 1)]
    assert said[-1].total == total


def split(log):
    """So that each piece has one loss."""
    return [piece for text in log for piece in text.replace("{}", "{}\0").split("\0")]


def test_interleaved_workers_do_not_count_twice():
    said = heard("\n".join(f"step {n} loss 1" for n in (100, 101, 100, 102, 101)))
    assert [s.step for s in said] == [100, 101, 100, 102, 101]


def test_an_unfinished_line_waits_for_its_end():
    lines = LogParser()
    assert lines.feed(b"step 3 lo") == []
    assert lines.feed(b"ss 0.") == []
    assert lines.feed(b"5\nloss") == [ParsedMetric(3, 0.5)]


def test_a_long_line_is_cut():
    lines = LogParser()
    assert lines.feed(b"loss 1 " + b"x" * 9000 + b"\n" + b"x" * 9000) == [ParsedMetric(None, 1)]
    assert lines.feed(b" loss 1\nloss 2\n") == [ParsedMetric(None, 2)]


def test_bytes_that_are_not_text_are_ignored():
    assert LogParser().feed(b"\xff\xfe step 1 \x80 loss 2 \xc3\n") == [ParsedMetric(1, 2)]


def test_the_users_own_pattern_names_value_step_and_total():
    pattern = r"(?P<step>\d+) of (?P<total>\d+): E=(?P<value>\S+)"
    assert heard("3 of 9: E=0.5\nloss 3\n4 of 9: E=??", pattern=pattern) == [
        ParsedMetric(3, 0.5, 9)
    ]


def test_the_first_group_is_the_value_and_the_step_is_found_as_without_a_pattern():
    said = heard("Epoch 2/4\nEpoch 2 [5/10] E=0.5\nE=1", pattern=r"E=([\d.]+)")
    assert said == [ParsedMetric(1.5, 0.5, 4), ParsedMetric(None, 1)]


def test_a_pattern_sees_letters_as_they_were_printed():
    assert heard("e=1 E=2", pattern=r"E=(\d)") == [ParsedMetric(None, 2)]


@pytest.mark.parametrize(
    ("metric", "pattern", "message"),
    [
        ("loss", "(", "invalid regular expression"),
        ("loss", "(x{1001})", "invalid regular expression"),
        ("loss", "(?<=loss )(.*)", "look-around"),
        ("loss", r"(a)\1", "back-references"),
        ("loss", "(.{1,900})", "too large: .* instructions, the limit is 1000"),
        ("loss", "(a)" * 17, "17 groups, the limit is 16"),
        ("loss", "loss", "no group"),
        (" ", None, "is empty"),
    ],
)
def test_an_invalid_metric_or_pattern_is_refused(metric, pattern, message):
    with pytest.raises(ValueError, match=message):
        LogParser(metric, pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "((a*)*)*b", "(?:a|b)*a(?:a|b){150}(c)", "a(.{0,100})b(.{0,4})c"]
)
def test_no_pattern_takes_more_than_linear_time(pattern):
    """CPU time, so that other processes do not count. `re` needs hours for the first."""
    letters = Random(1)
    flood = "".join(letters.choice("ab") for _ in range(8192))
    began = process_time()
    heard(f"{'a' * 45}b\n{flood}\n", pattern=pattern)
    assert process_time() - began < 0.5


WORDS = st.sampled_from(
    [
        *("loss", "val_", "cost", "epoch", "step", "it", "batch", "test", "tensor(", "nan"),
        *("1", "23", "1e5", "[", "]", "/", "|", ":", "=", ",", ".", "-", "'", "%|", "█", " "),
        *("\n", "\r", "\b", "\x1b", "\x1b[1m"),
    ]
)
PRINTED = st.lists(WORDS.map(str.encode) | st.binary(max_size=4)).map(b"".join)


@given(PRINTED, st.lists(st.integers(0, 200)), st.sampled_from([None, r"(?P<value>\S+)$"]))
def test_the_result_does_not_depend_on_how_the_bytes_are_cut(data, cuts, pattern):
    whole = LogParser(pattern=pattern).feed(data + b"\n")
    lines = LogParser(pattern=pattern)
    ends = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    pieces = [said for a, b in pairwise(ends) for said in lines.feed(data[a:b])]
    assert repr(pieces + lines.feed(b"\n")) == repr(whole)  # as nan is not nan


HOSTILE = [
    *("1", "=", "[", "1=[", "[1/", "1.", " ", "| 1/ ", "\x1b[", "\x1b]", "-", "e1"),
    *("loss", "loss=1x ", "val loss=1 ", "x_loss=1 ", "step ", "it", "epoch 1/ ", "batch ", "test"),
]


@pytest.mark.parametrize("start", ["loss=", "loss 1 step", "loss 1 epoch [", ""], ids=repr)
@pytest.mark.parametrize("again", HOSTILE, ids=repr)
def test_no_line_takes_long(start, again):
    line = (start + again * (8192 // len(again)) + " loss=x\n").encode()

    def seconds():
        since = perf_counter()
        LogParser().feed(line)
        return perf_counter() - since

    assert min(seconds() for _ in range(7)) < 0.002


def test_the_example_is_the_first_line_with_a_value_as_it_was_printed():
    parser = LogParser()
    parser.feed(b"Epoch 1/4\nEpoch 1/4 - ")
    assert parser.example == ""
    parser.feed(b"Loss: 0.5\nEpoch 2/4 - Loss: 0.4\n")
    parser.feed(b"Epoch 3/4 - Loss: 0.3\n")
    assert parser.example == "Epoch 1/4 - Loss: 0.5"
