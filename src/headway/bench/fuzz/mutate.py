"""Mutations of YAML, CSV, JSON and log lines. The same seed gives the same text."""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import yaml

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 0.5, -0.0, 1e-320, 1e-9, 1e9, 1e15, 1e308, -1e308, 10**18,
    2**63, float("inf"), float("-inf"), float("nan"), "", " ", "x", "nan", "-inf", "1e400", "20%",
    "101%", "5 parsecs", "1h", "500m", "4Gi", "9" * 400, "../../x", "/etc/passwd", "a/b", "a b",
    "a\x00b", "\x1b[2J", "\u202e", "é" * 70, "2026-99-99", "job-1", "any", "all", "nothing",
    "sync", "ring", [], {}, [[]], [None], {"": ""}, [0, 1], [1, 0], [0, 1, 2], {"after": "50%"},
    {"name": "x"}, [{"name": "x"}, {"name": "x"}], "(a+)+$", "(", "(?P<value>.*)", "(.{1,900})",
)  # fmt: skip
"""Values that are wrong in most places."""
TOKENS: tuple[str, ...] = (
    "[", "]", "{", "}", "&a ", "*a", "<<: *a", "<<: [*a, *a]", "!!int ", "!!float ", "!!bool ",
    "!!timestamp ", "!!binary ", "!!set ", "!!python/object:os.system ", "!!omap ", "---\n",
    "...\n", "%YAML 1.1\n", "? ", ": ", "- ", "'", '"', "|\n", ">\n", "#", "\t", "\n", "\r", "\\",
    "\x00", "\x07", "\x1b", "\x85", "\x9b", "\u2028", "\ufeff", "\U0001d11e", ",", ",,", "nan",
    "-inf", "1e400", "-1", "0", "99999999999999999999", "2026-99-99", "0x" + "f" * 40, "190:20:30",
    "true", "null", "~", "=", "loss", "loss: 1e308", "epoch", "step", "1/0", "[0/0]",
    '{"step": 1}', '"is"', ":null", "[[[[[[[[", "{a: {a: {a: ", "/", "%", "|", "\b", "tensor(",
)  # fmt: skip
LONG = (100, 1000, 10_000)


def mutated_data(dice: Random, data: Any) -> Any:
    """Return plain data with one to four changes."""
    root = {"": json.loads(json.dumps(data, default=str))}
    for _ in range(dice.randint(1, 4)):
        places = list(_places(root))
        holder, key = dice.choice(places[1:] or places)
        _change(dice, holder, key, places)
    return root[""]


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


def _change(dice: Random, holder: Any, key: Any, places: Sequence[tuple[Any, Any]]) -> None:
    """Replace, remove, rename, repeat, or copy from elsewhere. An earlier change may have removed
    the place.
    """
    if isinstance(holder, dict) and key not in holder:
        return
    way = dice.random()
    if way < 0.55:
        holder[key] = deepcopy(dice.choice(ODD))
    elif way < 0.7:
        there, at = dice.choice(places)
        copied = json.dumps(there[at], default=str)
        holder[key] = json.loads(copied) if len(copied) < 20_000 else None
    elif way < 0.8 and isinstance(holder, dict) and key != "":
        holder[_word(dice, str(key))] = holder.pop(key)
    elif way < 0.9 and isinstance(holder, list):
        holder += [deepcopy(holder[key])] * dice.choice((1, 2, 50))
    elif isinstance(holder, dict) and key != "":
        del holder[key]
    elif isinstance(holder[key], str):
        holder[key] = _word(dice, holder[key])


def _word(dice: Random, word: str) -> str:
    at = dice.randint(0, len(word))
    return word[:at] + dice.choice(TOKENS) + word[at + dice.randint(0, 2) :]


def mutated_text(dice: Random, text: str, other: str) -> str:
    """Return text with one to six changes: tokens, removals, repetitions, a part of `other`."""
    for _ in range(dice.randint(1, 6)):
        at = dice.randint(0, len(text))
        way = dice.random()
        if way < 0.5:
            text = text[:at] + dice.choice(TOKENS) + text[at:]
        elif way < 0.65:
            text = text[:at] + text[at + dice.choice((1, 2, 8, 64)) :]
        elif way < 0.75:
            start = dice.randint(0, len(other))
            text = text[:at] + other[start : start + dice.choice((10, 100, 1000))] + text[at:]
        elif way < 0.85:
            text = text[:at] + dice.choice(TOKENS) * dice.choice(LONG) + text[at:]
        elif way < 0.95:
            text = text[:at] + text[max(0, at - 40) : at] * dice.choice((2, 20, 200)) + text[at:]
        else:
            text = text[:at]
    return text


def yaml_of(dice: Random, seeds: Sequence[Any]) -> str:
    """Return a mutated document: as data, as text, or both."""
    data = dice.choice(seeds)
    way = dice.random()
    if way < 0.7:
        data = mutated_data(dice, data)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    if way > 0.6:
        text = mutated_text(dice, text, yaml.safe_dump(dice.choice(seeds)))
    return text


def lines_of(dice: Random, seeds: Sequence[str]) -> str:
    return mutated_text(dice, dice.choice(seeds), dice.choice(seeds))


def json_lines_of(dice: Random, seeds: Sequence[str]) -> str:
    """Change a line of JSON as data or as text."""
    lines = dice.choice(seeds).splitlines()
    at = dice.randrange(len(lines))
    if dice.random() < 0.6:
        lines[at] = json.dumps(mutated_data(dice, json.loads(lines[at])))
    else:
        lines[at] = mutated_text(dice, lines[at], dice.choice(lines))
    text = "\n".join(lines) + "\n"
    return text[: dice.randint(0, len(text))] if dice.random() < 0.1 else text


Mutation = Callable[[Random, Sequence[Any]], str]
