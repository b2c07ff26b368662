"""The built-in models: profiles from the catalogue of the papers' experiments."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from headway.errors import UnknownName
from headway.spec.workload import Profile, Workload


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
