"""What is written below the fields of a class, for who reads of them elsewhere."""

import ast
import inspect
from typing import Any


def docstrings(of: type[Any]) -> dict[str, str]:
    """By field, its own ones only. Read from the source, which takes its time."""
    body = ast.parse(inspect.getsource(of)).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101 - it was given a class
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[name] = " ".join(said.split())
    return found
