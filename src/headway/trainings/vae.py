"""A variational autoencoder (Kingma and Welling 2014) of images of digits.

The loss is the negative evidence lower bound (ELBO), per pixel.
"""

import numpy as np
from numpy.random import Generator

from headway.trainings.data import add_noise, digits
from headway.trainings.model import Arrays, Batch, dense, layer, sigmoid


class VAE:
    def __init__(
        self,
        rng: Generator,
        *,
        images: int = 2048,
        size: int = 100,
        hidden: int = 200,
        code: int = 12,
    ) -> None:
        drawn, _ = digits(rng, images)
        self._images, self._size, self._code = drawn.reshape(images, -1), size, code
        pixels = self._images.shape[1]
        self.params: Arrays = {
            "encode.w": dense(rng, pixels, hidden),
            "encode.b": np.zeros(hidden),
            "code.w": 0.1 * dense(rng, hidden, 2 * code),
            "code.b": np.zeros(2 * code),
            "decode.w": dense(rng, code, hidden),
            "decode.b": np.zeros(hidden),
            "pixel.w": 0.1 * dense(rng, hidden, pixels),
            "pixel.b": np.zeros(pixels),
        }

    def batch(self, rng: Generator) -> Batch:
        chosen = self._images[rng.integers(len(self._images), size=self._size)]
        return add_noise(rng, chosen, 0.05).clip(0, 1), rng.standard_normal(
            (self._size, self._code)
        )

    def loss_and_grads(self, batch: Batch) -> tuple[float, Arrays]:
        images, noise = batch
        p = self.params
        seen = np.tanh(images @ p["encode.w"] + p["encode.b"])
        mean, log_variance = np.split(seen @ p["code.w"] + p["code.b"], 2, axis=1)
        spread = np.exp(0.5 * log_variance)
        code = mean + spread * noise  # reparametrised: the noise is independent of the weights
        drawn = np.tanh(code @ p["decode.w"] + p["decode.b"])
        logits = drawn @ p["pixel.w"] + p["pixel.b"]
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
