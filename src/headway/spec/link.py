"""The network between virtual nodes, as a user writes it."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from headway.spec.base_model import Strict
from headway.spec.quantity import Memory, Time


class LinkSpec(Strict):
    """Network link between each replica and the replicas on other nodes, in either direction."""

    bandwidth: Annotated[Memory, Field(ge=1024)] | None = None
    """Bytes per second. Not limited by default."""
    delay_s: Annotated[Time, Field(le=60)] = 0.0
    """Time until a byte that was sent arrives."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.bandwidth is None and not self.delay_s:
            raise ValueError("give bandwidth, delay_s or both")
        return self
