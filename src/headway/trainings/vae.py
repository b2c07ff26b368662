"""A variational autoencoder (Kingma and Welling 2014) of images of digits.

The loss is the negative evidence lower bound (ELBO), per pixel.
"""

import numpy as np
from numpy.random import Generator

from headway.trainings.data import IMAGES, add_noise, digits
from headway.trainings.model import Arrays, Batch, dense, layer, linear, sigmoid


class VAE:
    def __init__(
        self, rng: Generator, *, size: int = 100, hidden: int = 200, code: int = 12
    ) -> None:
        drawn, _ = digits(rng, IMAGES)
        self._images, self._size, self._code = drawn.reshape(IMAGES, -1), size, code
        pixels = self._images.shape[1]
        self.params: Arrays = (
            dense(rng, "encode", pixels, hidden)
            | dense(rng, "code", hidden, 2 * code, scale=0.1)
            | dense(rng, "decode", code, hidden)
            | dense(rng, "pixel", hidden, pixels, scale=0.1)
        )

    def batch(self, rng: Generator) -> Batch:
        chosen = self._images[rng.integers(len(self._images), size=self._size)]
        noisy = add_noise(rng, chosen, 0.05).clip(0, 1)
        return noisy, rng.standard_normal((self._size, self._code))

    def loss_and_grads(self, batch: Batch) -> tuple[float, Arrays]:
        images, noise = batch
        p = self.params
        seen = np.tanh(linear(p, "encode", images))
        mean, log_variance = np.split(linear(p, "code", seen), 2, axis=1)
        spread = np.exp(0.5 * log_variance)
        code = mean + spread * noise  # reparametrised: the noise is independent of the weights
        drawn = np.tanh(linear(p, "decode", code))
        logits = linear(p, "pixel", drawn)
        error = np.logaddexp(0, logits) - images * logits
        divergence = 0.5 * (spread**2 + mean**2 - 1 - log_variance)
        loss = float((error.sum() + divergence.sum()) / images.size)

        d_logits = (sigmoid(logits) - images) / images.size
        d_drawn = (d_logits @ p["pixel.w"].T) * (1 - drawn**2)
        d_code = d_drawn @ p["decode.w"].T
        d_mean = d_code + mean / images.size
        d_log_variance = 0.5 * (d_code * noise * spread + (spread**2 - 1) / images.size)
        d_stats = np.hstack([d_mean, d_log_variance])
        d_seen = (d_stats @ p["code.w"].T) * (1 - seen**2)
        return loss, (
            layer("encode", images, d_seen)
            | layer("code", seen, d_stats)
            | layer("decode", code, d_drawn)
            | layer("pixel", drawn, d_logits)
        )
