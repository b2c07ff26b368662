"""What a platform can do with a job, beyond starting and ending it."""

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
        """Return what both allow.

        >>> (Capabilities(scale=False) & ALL).scale, (Capabilities(scale=False) & ALL).migrate
        (False, True)
        """
        return Capabilities(
            shares=self.shares and other.shares,
            migrate=self.migrate and other.migrate,
            suspend=self.suspend and other.suspend,
            scale=self.scale and other.scale,
            adopt=self.adopt and other.adopt,
            gpu=self.gpu and other.gpu,
        )


ALL = Capabilities(adopt=True, gpu=True)
