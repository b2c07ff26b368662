"""What a platform can do for a job, beside starting and ending it."""

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
    """Manage what somebody else started."""
    gpu: bool = False


ALL = Capabilities(adopt=True, gpu=True)
