"""Data generated from a seed: images of digits, and sequences of words, waves and balances.

All data are noisy, so that a loss has a floor above zero, as with real data.
"""

import numpy as np
from numpy.random import Generator

from headway.trainings.model import Array, Labels

SIDE = 16
IMAGES = 2048
"""Images of digits that a model is trained on."""
CLASSES = 10
LETTERS = " abcdefghijklmnopqrstuvwxyz"
VOCABULARY = 80
"""Number of words."""
TAGS = 8
WRONG = 0.05
"""Fraction of the tags that are random."""

# The segments of a seven-segment display, as (top, left, bottom, right), and those of each digit.
BARS = [
    (2, 4, 4, 12), (2, 4, 8, 6), (2, 10, 8, 12), (7, 4, 9, 12),
    (8, 4, 14, 6), (8, 10, 14, 12), (12, 4, 14, 12),
]  # fmt: skip
LIT = ["012456", "25", "02346", "02356", "1235", "01356", "013456", "025", "0123456", "012356"]


def digits(rng: Generator, count: int) -> tuple[Array, Labels]:
    """Return images of 16 x 16 pixels in [0, 1], randomly shifted, slanted and dimmed."""
    shapes = np.zeros((CLASSES, SIDE, SIDE))
    for shape, lit in zip(shapes, LIT, strict=True):
        for top, left, bottom, right in (BARS[int(bar)] for bar in lit):
            shape[top:bottom, left:right] = 1.0
    labels = rng.integers(CLASSES, size=count)
    down, along = rng.integers(-2, 3, size=(2, count, 1, 1))
    slant = rng.uniform(-0.4, 0.4, size=(count, 1, 1))
    row, column = np.indices((SIDE, SIDE))
    rows = (row - down) % SIDE
    columns = (column - along + np.rint(slant * (rows - SIDE / 2)).astype(np.int64)) % SIDE
    images = shapes[labels[:, None, None], rows, columns]
    return images * rng.uniform(0.6, 1.0, size=(count, 1, 1)), labels


def add_noise(rng: Generator, images: Array, noise: float) -> Array:
    return images + noise * rng.standard_normal(images.shape)


def text(rng: Generator, length: int) -> Labels:
    """Return a text of random words with Zipf frequencies, as indices into `LETTERS`."""
    lengths = rng.integers(2, 8, size=VOCABULARY)
    words = [np.append(rng.integers(1, len(LETTERS), size=n), 0) for n in lengths]
    frequency = 1 / np.arange(1.0, VOCABULARY + 1)  # Zipf's law
    drawn = rng.choice(VOCABULARY, size=length // 3 + 1, p=frequency / frequency.sum())
    return np.concatenate([words[word] for word in drawn])[:length]


def windows(rng: Generator, symbols: Labels, length: int, count: int) -> Labels:
    """Return windows of a text, one per column."""
    begins = rng.integers(len(symbols) - length + 1, size=count)
    return np.asarray(symbols[begins + np.arange(length)[:, None]])


def waves(rng: Generator, length: int, count: int) -> Array:
    """Return noisy sums of two waves of random frequency, one per column."""
    pace = rng.uniform(0.2, 1.2, size=(2, 1, count))
    phase = rng.uniform(0, 2 * np.pi, size=(2, 1, count))
    clean = np.sin(pace * np.arange(length)[:, None] + phase).sum(axis=0)
    return add_noise(rng, clean, 0.1)


def balances(rng: Generator, length: int, count: int) -> tuple[Array, Labels]:
    """Return numbers in columns, each tagged by the weighted balance of later and earlier ones."""
    values = rng.standard_normal((length, count))
    ahead = np.arange(length) - np.arange(length)[:, None]
    balance = (np.sign(ahead) * 0.7 ** np.abs(ahead)) @ values
    tags = np.searchsorted(np.linspace(-2, 2, TAGS - 1), balance)
    wrong = rng.random((length, count)) < WRONG
    return values, np.where(wrong, rng.integers(TAGS, size=(length, count)), tags)
