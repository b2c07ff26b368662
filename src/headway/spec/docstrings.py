"""Docstrings of the fields of a class."""

import ast
import inspect
from typing import Any


def docstrings(of: type[Any]) -> dict[str, str]:
    """Return the docstrings of a class's own fields, parsed from its source (slow)."""
    body = ast.parse(inspect.getsource(of)).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ):
                texts[name] = " ".join(docstring.split())
    return texts
