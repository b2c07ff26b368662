"""The built-in models: profiles of the papers' experiments."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from headway.core.estimate.step_rate import SERVER
from headway.errors import UnknownName
from headway.spec.profile import Profile
from headway.spec.workload import Workload
from headway.trainings import (
    CHUNK_COST,
    CHUNKS,
    DISTRIBUTED,
    SAMPLE_COST,
    UPDATES_PER_SECOND,
)


@cache
def catalogue() -> dict[str, Any]:
    text = (files("headway") / "data" / "catalogue.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return loaded


@cache
def pool(name: str) -> dict[str, Profile]:
    pools = catalogue()["pools"]
    if name not in pools:
        raise UnknownName("pool of models", name, pools)
    return {model: Profile.model_validate(p) for model, p in pools[name].items()}


def models_of(workload: Workload) -> dict[str, Profile]:
    """Return the models of the workload's pool and its own, by name."""
    return {**pool(workload.pool), **workload.models}


def all_models(workload: Workload) -> dict[str, Profile]:
    """Return the models that a job can name: also distributed ones, which are in no pool."""
    return {**{model: _distributed(model) for model in DISTRIBUTED}, **models_of(workload)}


@cache
def _distributed(model: str) -> Profile:
    """Return the profile of a built-in distributed training, as on the reference machine."""
    kind = model.removeprefix("ps-") if SERVER in DISTRIBUTED[model] else "ring"
    speed = {"kind": kind, "compute": 0.05, "fixed": 0.001, "transfer_s": 0.0005}
    return Profile.model_validate({"steps": 400, "speed": speed})


def profile_of(workload: Workload, model: str) -> Profile:
    known = all_models(workload)
    if model not in known:
        raise UnknownName("model", model, known)
    return known[model]


TRAINED_AS = {"mnist": "cnn", "rnn": "lstm", "drnn": "gru"}
"""Built-in trainings of the catalogue's models that have another name."""


def training_of(model: str, profile: Profile) -> tuple[str, int]:
    """Return the built-in training of a model, and the updates per step (distributed: the samples
    per chunk) that make its total work about that of the profile.
    """
    if model in DISTRIBUTED:
        per_chunk = profile.work / profile.steps / CHUNKS
        return model, max(1, round((per_chunk - CHUNK_COST) / SAMPLE_COST))
    family = model.partition("-")[0]
    name = TRAINED_AS.get(family, family)
    if name not in UPDATES_PER_SECOND:
        raise UnknownName("training", name, UPDATES_PER_SECOND)
    updates = profile.work * UPDATES_PER_SECOND[name]
    return name, max(1, round(updates / profile.steps))
