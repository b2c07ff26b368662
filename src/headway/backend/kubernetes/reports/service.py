"""The report server of the leader. The Service selects the pod of the leader by a label.

If an object that the server needs is missing, the operator works without reports, logs the reason
once, and retries.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread

from headway.backend.kubernetes.client.api import Api, pod_path
from headway.backend.kubernetes.platform.platform import KubernetesPlatform
from headway.backend.kubernetes.platform.pod_reports import Endpoint
from headway.backend.kubernetes.reports import certificate
from headway.backend.kubernetes.reports.server import ReportServer
from headway.backend.kubernetes.reports.token_review import TokenReviewer
from headway.core.model.units import Seconds
from headway.errors import BackendError
from headway.spec.manifest import GROUP

LEADER = f"{GROUP}/leader"
"""Label of the leader's pod, by which the Service selects it."""
AGAIN: Seconds = 5.0
LONGEST: Seconds = 300.0
"""First and longest time between two attempts."""
PODS, AGENTS = "pods cannot report", "node agents cannot report"
log = logging.getLogger("headway")


@dataclass(slots=True)
class ReportService:
    api: Api
    home: str
    """Namespace of the operator."""
    agents: str = ""
    """Namespace of the node agents; "": there are none."""
    pod: str = ""
    """Name of this pod; "": this process is no pod, and cannot be reached by others."""
    port: int = certificate.PORT
    server: ReportServer | None = field(default=None, init=False)
    _pair: certificate.Pair | None = field(default=None, init=False)
    _endpoint: Endpoint | None = field(default=None, init=False)
    _left: list[tuple[str, Callable[[], None]]] = field(default_factory=list, init=False)
    """Steps that have not succeeded yet, in order, each with the meaning of a failure."""
    _logged: set[str] = field(default_factory=set, init=False)
    _stop: Event = field(default_factory=Event, init=False)
    _thread: Thread | None = field(default=None, init=False)

    def stand_by(self) -> None:
        """Remove the label of this pod: it may have led before its container was restarted."""
        with suppress(BackendError):
            self._label(None)

    def prepare(self, platform: KubernetesPlatform) -> None:
        """Set the endpoint for pods and agents. Called before the first pod is created."""
        platform.receiver.agents = self.agents
        platform.trust(Endpoint(certificate.url(self.home)))
        self._left = [(PODS, partial(self._publish, platform))]
        if self.agents:
            self._left.append((AGENTS, self._publish_for_agents))
        self._attempt()

    def start(self, platform: KubernetesPlatform, folder: Path) -> None:
        self._left.append((PODS, partial(self._serve, platform, folder)))
        if not self._attempt():
            self._thread = Thread(target=self._retry, name="reports-retry", daemon=True)
            self._thread.start()

    def _retry(self) -> None:
        wait = AGAIN
        while not self._stop.wait(wait):
            if self._attempt():
                log.info("all that reports need has been set up")
                return
            wait = min(LONGEST, 2 * wait)

    def _attempt(self) -> bool:
        """Try the remaining steps; return whether all have succeeded."""
        for step in list(self._left):
            meaning, do = step
            try:
                do()
            except (BackendError, OSError) as error:
                self._warn(f"{meaning}: {_text(error)}")
                if self._endpoint is None:
                    return False  # the others need it
            else:
                self._left.remove(step)
        return not self._left

    def _warn(self, text: str) -> None:
        if text not in self._logged:
            self._logged.add(text)
            log.warning("%s; trying again", text)

    def _publish(self, platform: KubernetesPlatform) -> None:
        self._pair = certificate.ensure(self.api, self.home)
        endpoint = Endpoint(certificate.url(self.home), self._pair.certificate)
        certificate.publish(self.api, self.home, endpoint)
        self._endpoint = endpoint
        platform.trust(endpoint)

    def _publish_for_agents(self) -> None:
        if self._endpoint is not None:
            certificate.publish(self.api, self.agents, self._endpoint)

    def _serve(self, platform: KubernetesPlatform, folder: Path) -> None:
        if self.server is None and self._pair is not None:
            self.server = ReportServer(
                ("", self.port),
                certificate.context(self._pair, folder),
                TokenReviewer(self.api).identify,
                platform.receiver.routes(),
            )
        self._label("true")
        if self.pod:
            with suppress(BackendError):
                self._take_over()

    def _take_over(self) -> None:
        """Remove the label of other pods: the pod of a leader whose node was lost keeps its label,
        and so its address in the Service, until it is deleted.
        """
        path = f"/api/v1/namespaces/{self.home}/pods"
        for pod in self.api.list(path, labelSelector=f"{LEADER}=true")[0]:
            if pod["metadata"]["name"] != self.pod:
                self._label(None, pod["metadata"]["name"])

    def _label(self, value: str | None, pod: str = "") -> None:
        if self.pod:
            body = {"metadata": {"labels": {LEADER: value}}}
            self.api.patch(pod_path(self.home, pod or self.pod), body)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()  # it could label the pod once more
        if self.server is not None:
            self.stand_by()
            self.server.close()
            self.server = None


def _text(error: BackendError | OSError) -> str:
    return f"{error.message} ({error.where})" if isinstance(error, BackendError) else str(error)
