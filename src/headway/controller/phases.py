"""The phase table: which causes lead from one phase of a job to another.

A cause that a phase does not list is refused (decisions and requests) or ignored (late events).
`docs/lifecycle.md` is generated from this table.
"""

from collections.abc import Mapping
from enum import StrEnum

from headway.core.model.job import Phase


class Cause(StrEnum):
    """What changes the phase of a job."""

    ADMIT = "admitted"
    PLACE = "place"
    RUN = "all replicas run"
    MOVE = "move, or restart to scale"
    SUSPEND = "suspend"
    SAVE_FAILED = "no checkpoint in time"
    NO_ROOM = "no capacity on the target"
    ARRIVE = "restarted"
    RELEASE = "checkpointed and stopped"
    SUCCEED = "chief exited with code 0"
    FAIL = "replica failed"
    REQUEUE = "interrupted, not a failure"
    CANCEL = "cancel"
    STOPPED = "all replicas stopped"
    RETRY = "back-off elapsed"
    PAUSE = "pause"
    RESUME = "resume"


_ENDED: Mapping[Cause, tuple[Phase, ...]] = {}
_DISTURBED: Mapping[Cause, tuple[Phase, ...]] = {
    Cause.SUCCEED: (Phase.STOPPING,),
    Cause.FAIL: (Phase.STOPPING,),
    Cause.REQUEUE: (Phase.STOPPING,),
    Cause.CANCEL: (Phase.STOPPING,),
}
"""Transitions of every job that has replicas."""

TABLE: Mapping[Phase, Mapping[Cause, tuple[Phase, ...]]] = {
    Phase.PENDING: {
        Cause.ADMIT: (Phase.PENDING, Phase.PAUSED),
        Cause.PLACE: (Phase.STARTING,),
        Cause.PAUSE: (Phase.PAUSED,),
        Cause.FAIL: (Phase.STOPPING,),
        Cause.CANCEL: (Phase.STOPPING,),
    },
    Phase.STARTING: {**_DISTURBED, Cause.RUN: (Phase.RUNNING,)},
    Phase.RUNNING: {
        **_DISTURBED,
        Cause.MOVE: (Phase.MIGRATING,),
        Cause.SUSPEND: (Phase.SUSPENDING,),
    },
    Phase.MIGRATING: {
        **_DISTURBED,
        Cause.MOVE: (Phase.MIGRATING,),
        Cause.ARRIVE: (Phase.RUNNING,),
        Cause.SAVE_FAILED: (Phase.RUNNING,),
        Cause.NO_ROOM: (Phase.RUNNING,),
        Cause.RELEASE: (Phase.STARTING,),
    },
    Phase.SUSPENDING: {
        **_DISTURBED,
        Cause.RELEASE: (Phase.PENDING, Phase.PAUSED),
        Cause.ARRIVE: (Phase.RUNNING,),
        Cause.SAVE_FAILED: (Phase.RUNNING,),
    },
    Phase.PAUSED: {
        Cause.RESUME: (Phase.PENDING,),
        Cause.FAIL: (Phase.STOPPING,),
        Cause.CANCEL: (Phase.STOPPING,),
    },
    Phase.BACKOFF: {
        Cause.RETRY: (Phase.PENDING, Phase.PAUSED),
        Cause.FAIL: (Phase.STOPPING,),
        Cause.CANCEL: (Phase.STOPPING,),
    },
    Phase.STOPPING: {
        Cause.CANCEL: (Phase.STOPPING,),
        Cause.STOPPED: (Phase.BACKOFF, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED),
    },
    Phase.SUCCEEDED: _ENDED,
    Phase.FAILED: _ENDED,
    Phase.CANCELLED: _ENDED,
}


def allows(phase: Phase, cause: Cause) -> bool:
    return cause in TABLE[phase]


def check_transition(phase: Phase, cause: Cause, to: Phase) -> None:
    """Raise `ValueError` for a transition outside the table: a programming error."""
    if to not in TABLE[phase].get(cause, ()):
        raise ValueError(f"no transition from {phase} to {to} by {cause.name}")
