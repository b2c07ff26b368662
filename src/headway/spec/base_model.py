"""The base of every model that a user's file is read into: an unknown key is an error that
names the nearest known one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import CoreSchema, PydanticCustomError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What crosses fields, said in Python and, for the API server of a cluster, in CEL."""

    field: str
    """The one to blame, as it is written in a file."""
    says: str
    """What must hold, as the end of "`field`: …"."""
    cel: str
    holds: Callable[[Any], bool] | None = None
    """None: only a cluster asks for it."""


class Manifest(Strict):
    """Manifests and the custom resource: camelCase keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_alias=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            if rule.holds is not None and not rule.holds(self):
                given = getattr(self, to_snake(rule.field))
                told = {"says": rule.says, "field": rule.field, "given": given}
                raise PydanticCustomError("rule", "{field}: {says}", told)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """With the docstring of each field, and the rules as an API server reads them."""
        from headway.spec.docstrings import docstrings  # noqa: PLC0415 - rarely asked for, and slow

        found = handler.resolve_ref_schema(handler(core))
        own = {k: v for k, v in docstrings(cls).items() if k in cls.model_fields}
        for name, text in own.items():
            found["properties"][to_camel(name)]["description"] = text
        if cls.rules:
            found["x-kubernetes-validations"] = [
                {"rule": r.cel, "message": r.says, "fieldPath": f".{r.field}"} for r in cls.rules
            ]
        return found
