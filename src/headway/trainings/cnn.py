"""A convolutional classifier of digits: two convolutions and a softmax over ten classes.

A convolution is one matrix product: every 3 x 3 patch is a row (im2col).
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator

from headway.trainings.data import CLASSES, IMAGES, SIDE, add_noise, digits
from headway.trainings.model import Array, Arrays, Batch, cross_entropy, dense, layer, linear

WIDTH, STRIDE = 3, 2


class CNN:
    def __init__(
        self, rng: Generator, *, size: int = 100, first: int = 12, second: int = 24
    ) -> None:
        drawn, self._labels = digits(rng, IMAGES)
        self._images, self._size = drawn[..., None], size
        places = (SIDE // STRIDE**2) ** 2
        self.params: Arrays = (
            dense(rng, "first", WIDTH**2, first)
            | dense(rng, "second", WIDTH**2 * first, second)
            | dense(rng, "class", places * second, CLASSES)
        )

    def batch(self, rng: Generator) -> Batch:
        chosen = rng.integers(len(self._images), size=self._size)
        return add_noise(rng, self._images[chosen], 0.5), self._labels[chosen]

    def loss_and_grads(self, batch: Batch) -> tuple[float, Arrays]:
        images, labels = batch
        p = self.params
        first_rows = patches(images)
        first = np.maximum(linear(p, "first", first_rows), 0)
        second_rows = patches(first)
        second = np.maximum(linear(p, "second", second_rows), 0)
        features = second.reshape(len(images), -1)
        loss, d_logits = cross_entropy(linear(p, "class", features), labels)

        d_second = (d_logits @ p["class.w"].T).reshape(second.shape) * (second > 0)
        d_first = scatter(d_second @ p["second.w"].T, first.shape) * (first > 0)
        return loss, (
            layer("first", first_rows, d_first)
            | layer("second", second_rows, d_second)
            | layer("class", features, d_logits)
        )


def patches(images: Array) -> Array:
    """Return every second patch of images (count, row, column, channel), each as a row."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    found = sliding_window_view(padded, (WIDTH, WIDTH), axis=(1, 2))[:, ::STRIDE, ::STRIDE]
    return found.reshape(*found.shape[:3], -1)


def scatter(rows: Array, shape: tuple[int, ...]) -> Array:
    """Return the transpose of `patches`: add each number to the pixel it came from."""
    count, height, width, channels = shape
    padded = np.zeros((count, height + 2, width + 2, channels))
    parts = rows.reshape(*rows.shape[:3], channels, WIDTH, WIDTH)
    for down in range(WIDTH):
        for along in range(WIDTH):
            target = padded[:, down : down + height : STRIDE, along : along + width : STRIDE]
            target += parts[..., down, along]
    return padded[:, 1:-1, 1:-1]
