"""State for the next leader of an operator: the policy's memory, and the state of the cluster with
the histories of the replicas. It is encoded as in the journal.
"""

import json
import logging
from functools import partial
from typing import Any

from headway.backend.kubernetes.client.state_object import StateObject
from headway.backend.worker import Worker
from headway.core.cycle.folded_state import FoldedState, fold_state, unfold_state
from headway.core.model.serialization import from_plain, record, to_json
from headway.core.model.units import Seconds
from headway.errors import BackendError
from headway.runtime.loop import Loop

EVERY: Seconds = 10.0
"""Interval between two writes. The next leader has lost at most this time."""
MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
log = logging.getLogger("headway")


@record
class LeaderState:
    policy: str
    began: float
    """Time of day at which the clock of the loop was 0. The next leader continues this clock."""
    memory: Any
    state: FoldedState

    @property
    def at(self) -> Seconds:
        return self.state.seen.at

    def restore_into(self, loop: Loop[Any], policy: str) -> None:
        """Set the state of a loop. The memory is set only if the policy is the same."""
        loop.state = unfold_state(self.state)
        if policy == self.policy:
            loop.memory = self.memory


def load(store: StateObject) -> LeaderState | None:
    """Read the state of the earlier leader; None: it cannot be read. The policy then starts new."""
    try:
        return read(store)
    except BackendError as error:
        log.warning("the state of the earlier leader %s", error.message)
    return None


def read(store: StateObject) -> LeaderState | None:
    """Read the state; None: none was written. Raise `BackendError` if it cannot be read."""
    try:
        data = store.load()
        found = None if data is None else from_plain(json.loads(data))
    except BackendError as error:
        raise BackendError(f"cannot be read: {error.message}") from error
    except MALFORMED as error:
        raise BackendError(f"is not valid: {error}") from None
    return found if isinstance(found, LeaderState) else None


class StateSaver:
    """Writes a changed state in the thread of the worker, at most every ten seconds."""

    def __init__(
        self, store: StateObject, worker: Worker, loop: Loop[Any], about: tuple[str, float]
    ) -> None:
        """`about`: name of the policy, and start of the clock of the loop."""
        self._store, self._worker, self._loop = store, worker, loop
        self._policy, self._began = about
        self._written, self._logged = "", ""
        self._busy = False
        """A state is being written."""
        self.due: Seconds = 0.0

    def look(self, now: Seconds, *, last: bool = False) -> None:
        """`last`: the one that the next leader continues from."""
        self.due = now + EVERY
        if self._busy and not last:
            return
        memory, state = self._loop.memory, fold_state(self._loop.state)
        text = to_json(
            LeaderState(policy=self._policy, began=self._began, memory=memory, state=state)
        )
        if text != self._written:
            self._written = text
            self._busy = True
            save = partial(self._store.save, text.encode())
            self._worker.do(save, lambda _: self._saved(), self._failed)

    def _saved(self) -> tuple[()]:
        self._busy = False
        return ()

    def _failed(self, error: BackendError) -> tuple[()]:
        self._busy = False
        self._written = ""  # the next look tries again
        if error.message != self._logged:
            self._logged = error.message
            log.warning("the state for the next leader was not written: %s", error.message)
        return ()
