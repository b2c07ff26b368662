"""Base classes of the models of users' files. An unknown key is an error with a suggestion."""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import CoreSchema, PydanticCustomError

from headway.errors import nearest, shown


class Strict(BaseModel):
    """Base of workload files, which have snake_case keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.keys() <= (known := _keys(cls)).keys():
            return data
        for key in data:
            if key not in known:
                close = nearest(str(key), known)
                hint = f"did you mean '{close}'?" if close else f"there are: {', '.join(known)}"
                context = {"key": str(key), "shown": shown(str(key)), "hint": hint}
                raise PydanticCustomError("unknown_key", "unknown key {shown}; {hint}", context)
        return data

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the docstring of each field."""
        schema = handler.resolve_ref_schema(handler(core))
        for name, text in docstrings(cls).items():
            if name in cls.model_fields:
                key = cls.model_fields[name].alias or name
                schema["properties"][key]["description"] = text
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule across fields, in Python and, for the API server of a cluster, in CEL."""

    field: str
    """The field to report, as it is written in a file."""
    message: str
    """What must hold; follows "`field`: "."""
    cel: str
    holds: Callable[[Any], bool] | None = None
    """None: the rule applies on a cluster only."""


class Manifest(Strict):
    """Base of manifests and the custom resource, which have camelCase keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_alias=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            if rule.holds is not None and not rule.holds(self):
                given = getattr(self, to_snake(rule.field))
                context = {"message": rule.message, "field": rule.field, "given": given}
                raise PydanticCustomError("rule", "{field}: {message}", context)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the rules in CEL."""
        schema = super().__get_pydantic_json_schema__(core, handler)
        if cls.rules:
            schema["x-kubernetes-validations"] = [
                {"rule": r.cel, "message": r.message, "fieldPath": f".{r.field}"} for r in cls.rules
            ]
        return schema


@cache
def _keys(model: type[BaseModel]) -> dict[str, None]:
    """Return the keys of a model, in order. It is looked up for each object of a file."""
    return dict.fromkeys(field.alias or name for name, field in model.model_fields.items())


def unique_names(what: str) -> AfterValidator:
    """Refuse a list in which two entries have the same name."""

    def check(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            if entry.name in seen:
                context = {"what": what, "shown": shown(entry.name), "index": index}
                raise PydanticCustomError("repeated", "two {what} are called {shown}", context)
            seen.add(entry.name)
        return entries

    return AfterValidator(check)


def docstrings(of: type[Any]) -> dict[str, str]:
    """Return the docstrings of a class's own fields, parsed from its source (slow)."""
    body = ast.parse(inspect.getsource(of)).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ):
                texts[name] = " ".join(docstring.split())
    return texts
