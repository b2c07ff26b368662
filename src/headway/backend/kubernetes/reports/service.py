"""The report server of the leader: created when it leads, found by the label of its pod.

Without the objects that it needs, an operator works as before, and says once why nothing reports.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headway.backend.kubernetes.client.api import Api, pod_path
from headway.backend.kubernetes.platform.platform import KubernetesPlatform
from headway.backend.kubernetes.platform.pod_reports import Endpoint
from headway.backend.kubernetes.reports import certificate
from headway.backend.kubernetes.reports.server import ReportServer
from headway.backend.kubernetes.reports.token_review import TokenReviewer
from headway.errors import BackendError
from headway.spec.manifest import GROUP

LEADER = f"{GROUP}/leader"
"""Label of the leader's pod, by which the Service selects it."""
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

    def stand_by(self) -> None:
        """Another one leads: this pod may have done so, before its container was restarted."""
        with suppress(BackendError):
            self._label(None)

    def prepare(self, platform: KubernetesPlatform) -> None:
        """Before the first pod is created: tell pods and agents where to report."""
        try:
            self._pair = certificate.ensure(self.api, self.home)
            endpoint = Endpoint(certificate.url(self.home), self._pair.certificate)
            certificate.publish(self.api, self.home, endpoint)
            if self.agents:
                certificate.publish(self.api, self.agents, endpoint)
        except BackendError as error:
            log.warning("pods cannot report: %s (%s)", error.message, error.where)
            return
        platform.pods.endpoint, platform.receiver.agents = endpoint, self.agents

    def start(self, platform: KubernetesPlatform, folder: Path) -> None:
        if self._pair is None:
            return
        self.server = ReportServer(
            ("", self.port),
            certificate.context(self._pair, folder),
            TokenReviewer(self.api).identify,
            platform.receiver.routes(),
        )
        try:
            self._label("true")
        except BackendError as error:
            log.warning("pods cannot report: %s (%s)", error.message, error.where)

    def _label(self, value: str | None) -> None:
        if self.pod:
            body = {"metadata": {"labels": {LEADER: value}}}
            self.api.patch(pod_path(self.home, self.pod), body)

    def close(self) -> None:
        if self.server is not None:
            self.stand_by()
            self.server.close()
            self.server = None
