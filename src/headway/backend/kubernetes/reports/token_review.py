"""Identity of a client, by the token that it presents: a projected one, of the audience `headway`.

The API server says which pod a token is bound to, and on which node that pod runs. What the body of
a request says about its sender counts for nothing.
"""

import json
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from threading import BoundedSemaphore, Lock
from time import monotonic, time

from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.platform.pod_reports import AUDIENCE
from headway.core.model.units import Seconds
from headway.errors import BackendError, Denied, Unreachable

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
KEPT: Seconds = 60.0
"""Time for which an identity is cached; the token of a deleted pod stays valid for it."""
REFUSED: Seconds = 10.0
"""Time for which a refused token is not reviewed again."""
MOST = 10_000
"""Maximum number of cached tokens."""
LONGEST = 8192
AT_ONCE = 8
ANSWER: Seconds = 5.0
SKEW: Seconds = 60.0
"""Maximum difference of clocks."""
RIGHT = (
    "apply the manifests of this version again (`headway kubernetes manifests`; for an operator of "
    "one namespace, an administrator of the cluster does so with `--only-cluster`)"
)
log = logging.getLogger("headway")
EXTRA = "authentication.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Client:
    account: str
    """NAMESPACE:NAME of its service account."""
    pod: str
    """The uid of its pod; "": its token is not bound to one."""
    node: str


class TokenReviewer:
    """Used by the threads of the server."""

    def __init__(self, api: Api, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._clock = api, clock
        self._known: dict[bytes, tuple[float, Client | None]] = {}
        self._lock, self._calls = Lock(), BoundedSemaphore(AT_ONCE)
        self._last_error: type[BackendError] | None = None
        """Type of the last error; None after a successful review."""

    def identify(self, token: str) -> Client | None:
        """Return the owner of a token; None: it is not valid for this audience. Raise `Unreachable`
        if the client must retry.
        """
        if not token or len(token) > LONGEST:
            return None
        key, now = sha256(token.encode()).digest(), self._clock()
        with self._lock:
            until, client = self._known.get(key, (0.0, None))
        if now < until:
            return client
        if not _may_be_valid(token):
            return None
        try:
            client = self._in_turn(token)
        except BackendError as error:
            self._warn(error)
            raise
        self._last_error = None
        with self._lock:
            self._known.pop(key, None)
            self._known[key] = now + (KEPT if client else REFUSED), client  # the newest last
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]
        return client

    def _warn(self, error: BackendError) -> None:
        if type(error) is self._last_error:
            return
        self._last_error = type(error)
        log.warning(
            "reports are not accepted, because tokens cannot be reviewed: %s%s",
            error.message,
            f"; {RIGHT}" if isinstance(error, Denied) else "",
        )

    def _in_turn(self, token: str) -> Client | None:
        if not self._calls.acquire(timeout=ANSWER):
            raise Unreachable("too many tokens to review")
        try:
            return self._review(token)
        finally:
            self._calls.release()

    def _review(self, token: str) -> Client | None:
        body: Plain = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        status = self._api.create(PATH, body, timeout=ANSWER).get("status") or {}
        # An API server that does not know audiences says nothing about them.
        if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or ()):
            return None
        user = status.get("user") or {}
        extra = user.get("extra") or {}
        pod, node = (str((extra.get(EXTRA + k) or [""])[0]) for k in ("pod-uid", "node-name"))
        account = str(user.get("username", "")).removeprefix("system:serviceaccount:")
        return Client(account, pod, node)


def _may_be_valid(token: str) -> bool:
    """Whether a token may be valid by its unverified claims. This avoids a call for each random
    string.
    """
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        audiences, end = claims["aud"], float(claims["exp"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return False
    ours = AUDIENCE in audiences if isinstance(audiences, list) else audiences == AUDIENCE
    return ours and end > time() - SKEW
