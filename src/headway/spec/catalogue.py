"""The built-in models: profiles from the catalogue of the papers' experiments."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from headway.errors import UnknownName
from headway.spec.workload import Profile, Workload
from headway.trainings import UPDATES_PER_SECOND


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
    """By name: those of the workload's pool, and its own."""
    return {**pool(workload.pool), **workload.models}


def profile_of(workload: Workload, model: str) -> Profile:
    known = models_of(workload)
    if model not in known:
        raise UnknownName("model", model, known)
    return known[model]


TRAINED_AS = {"mnist": "cnn", "rnn": "lstm", "drnn": "gru"}
"""Where the catalogue's name is not that of a model which can be trained here."""


def training_of(model: str, profile: Profile) -> tuple[str, int]:
    """The training that stands for a model of the catalogue, and how many updates a step of it
    has, so that all of it is about as many core-seconds as the profile says.
    """
    family = model.partition("-")[0]
    name = TRAINED_AS.get(family, family)
    if name not in UPDATES_PER_SECOND:
        raise UnknownName("training", name, UPDATES_PER_SECOND)
    updates = profile.work * UPDATES_PER_SECOND[name]
    return name, max(1, round(updates / profile.steps))
