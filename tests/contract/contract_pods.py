"""Shares on Kubernetes: a pod alone has its own request whatever its weight, so there are two."""

from headway.core.model.decision import SetShare
from headway.core.model.units import ReplicaId
from headway.spec.quantity import parse_quantity

X = ReplicaId("x/worker-0")


def pod_share(pod, declared, most):
    """Limit and request of a pod; the request in comparison to what it declared."""
    (inside,) = pod["spec"]["containers"]
    limit = (inside["resources"].get("limits") or {}).get("cpu")
    limit = None if limit is None else parse_quantity(limit)
    weight = parse_quantity(inside["resources"]["requests"]["cpu"]) / declared
    return None if limit is None or limit >= most else limit, round(weight, 6)


class SharesOfPods:
    def test_a_share_is_set_and_read_back_from_the_platform(self, platform, seen):
        for name in ("x", "y"):
            platform.submit(name)
            seen.start(name, "a")
        seen.set(SetShare(replica=X, limit=0.25, weight=3.0))
        platform.settle()
        assert (platform.share(X), platform.share("y/worker-0")) == ((0.25, 1.5), (None, 0.5))
        r = seen.look().replicas[X]
        assert (r.limit, r.weight) == (0.25, 3.0)
        seen.set(SetShare(replica=X))
        platform.settle()
        assert (platform.share(X), platform.share("y/worker-0")) == ((None, 1.0), (None, 1.0))
