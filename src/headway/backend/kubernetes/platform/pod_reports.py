"""What a pod needs to report: an address, a token of its own, and a certificate to trust.

The certificate is an annotation of the pod, which a projected volume shows as a file: so it needs
no object in the namespace of the job, and no right to create one. The kubelet renews the file when
the annotation changes: a pod may exist before there is a certificate.
"""

from dataclasses import dataclass

from headway.backend.kubernetes.client.api import Plain
from headway.metrics import http_reports
from headway.spec.manifest import GROUP, TrainingJobSpec
from headway.spec.pod_fields import TRAINING

AUDIENCE = "headway"
METRIC, PATTERN, BUNDLE = f"{GROUP}/metric", f"{GROUP}/pattern", f"{GROUP}/trust-bundle"
"""Annotations: what the node agent looks for in the log, and the certificate of the operator."""
VOLUME, MOUNT = "headway-reports", "/headway-reports"
TOKEN, CERTIFICATE = "token", "ca.crt"
LIFETIME = 3600
"""Seconds; the kubelet renews it before."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str
    certificate: str = ""
    """PEM; "": it is not known yet."""


def reporting(pod: Plain, endpoint: Endpoint, spec: TrainingJobSpec) -> Plain:
    """The pod with all that. Variables that its owner has set are kept."""
    about, inside = pod["metadata"], pod["spec"]
    notes = {METRIC: spec.metric.name, BUNDLE: endpoint.certificate}
    if spec.reports.pattern:
        notes[PATTERN] = spec.reports.pattern
    token = {"audience": AUDIENCE, "expirationSeconds": LIFETIME, "path": TOKEN}
    bundle = {"path": CERTIFICATE, "fieldRef": {"fieldPath": f"metadata.annotations['{BUNDLE}']"}}
    sources = [{"serviceAccountToken": token}, {"downwardAPI": {"items": [bundle]}}]
    volume = {"name": VOLUME, "projected": {"sources": sources}}
    return {
        **pod,
        "metadata": {**about, "annotations": {**(about.get("annotations") or {}), **notes}},
        "spec": {
            **inside,
            "volumes": [*inside["volumes"], volume],
            "containers": [
                _told(each, endpoint.url) if each.get("name") == TRAINING else each
                for each in inside["containers"]
            ],
        },
    }


def lacks_certificate(pod: Plain, endpoint: Endpoint) -> bool:
    """Whether a pod that is to report trusts another certificate than that of the endpoint."""
    notes = pod["metadata"].get("annotations") or {}
    known = notes.get(BUNDLE)
    return known is not None and bool(endpoint.certificate) and known != endpoint.certificate


def _told(container: Plain, url: str) -> Plain:
    own = {each.get("name") for each in container["env"]}
    env = environment(url)
    mount = {"name": VOLUME, "mountPath": MOUNT, "readOnly": True}
    return {
        **container,
        "env": [
            *container["env"],
            *({"name": k, "value": v} for k, v in env.items() if k not in own),
        ],
        "volumeMounts": [*container["volumeMounts"], mount],
    }


def environment(url: str) -> dict[str, str]:
    """Return the variables for the SDK, and for clients of Kubeflow's status protocol, such as the
    trainer of Hugging Face.
    """
    token, certificate = f"{MOUNT}/{TOKEN}", f"{MOUNT}/{CERTIFICATE}"
    return {
        "HEADWAY_REPORTS_URL": f"{url}{http_reports.SDK}",
        "HEADWAY_REPORTS_TOKEN": token,
        "HEADWAY_REPORTS_CA": certificate,
        **http_reports.variables(url, token),
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": certificate,
    }
