"""Attempts that are being removed: the command is repeated until it is confirmed."""

from math import inf

from headway.controller.commands import Commands, Remove
from headway.controller.config import Config
from headway.core.model.units import JobId, ReplicaId, Seconds


class Removals:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._of: dict[JobId, dict[tuple[ReplicaId, int], tuple[Seconds, Seconds]]] = {}
        """The time of the next try, and the time to give up."""

    def __contains__(self, name: JobId) -> bool:
        """Whether something of a job is being removed."""
        return name in self._of

    def __bool__(self) -> bool:
        return bool(self._of)

    def tracked(self, commands: Commands, now: Seconds) -> Commands:
        """Note the removals among the commands, and return these."""
        for c in commands:
            if isinstance(c, Remove):
                left = self._of.setdefault(c.replica.job, {})
                first = now, now + self._config.removal_timeout
                _, until = left.get((c.replica, c.attempt), first)
                left[c.replica, c.attempt] = now + self._config.retry_removal, until
        return commands

    def done(self, replica: ReplicaId, attempt: int) -> None:
        """Note that an attempt was removed."""
        left = self._of.get(replica.job, {})
        left.pop((replica, attempt), None)
        if not left:
            self._of.pop(replica.job, None)

    def next(self) -> Seconds:
        """Return when the first one is due."""
        return min((at for left in self._of.values() for at, _ in left.values()), default=inf)

    def take_due(self, now: Seconds) -> tuple[Commands, list[JobId]]:
        """Return the commands to repeat, and the jobs of which one was given up."""
        commands: Commands = []
        given_up = []
        for key, (at, until) in [each for left in self._of.values() for each in left.items()]:
            if until <= now:
                self.done(*key)
                given_up.append(key[0].job)
            elif at <= now:
                commands.append(Remove(*key))
        return commands, given_up
