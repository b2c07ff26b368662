"""What a platform can do with a job, beyond starting and ending it."""

from dataclasses import fields

from headway.core.model.serialization import record


@record
class Capabilities:
    shares: bool = True
    """Change limit and weight of a running replica."""
    migrate: bool = True
    suspend: bool = True
    scale: bool = True
    """Add and remove replicas of a running job."""
    adopt: bool = False
    """Manage replicas that Headway did not start."""
    gpu: bool = False

    def __and__(self, other: "Capabilities") -> "Capabilities":
        """Return the capabilities that both have.

        >>> (Capabilities(scale=False) & ALL).scale, (Capabilities(scale=False) & ALL).migrate
        (False, True)
        """
        both = {f.name: getattr(self, f.name) and getattr(other, f.name) for f in fields(self)}
        return Capabilities(**both)


ALL = Capabilities(adopt=True, gpu=True)
