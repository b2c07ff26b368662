"""The base of every model that a user's file is read into: an unknown key is an error that
names the nearest known one.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from headway.errors import nearest


class Strict(BaseModel):
    """Workload files: snake_case keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data:
            if key not in known:
                close = nearest(str(key), known)
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown key '{key}'{hint}",
                    {
                        "key": str(key),
                        "hint": f"; did you mean '{close}'?"
                        if close
                        else f"; there are: {', '.join(known)}",
                    },
                )
        return data


class Manifest(Strict):
    """Manifests and the custom resource: camelCase keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_alias=True
    )
