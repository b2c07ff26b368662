"""Find other managers of the resources of a pod: Kueue, or a VerticalPodAutoscaler (VPA)."""

from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import quote

from headway.backend.kubernetes.client.api import Api, Plain, suppressed
from headway.errors import Denied

KUEUE, VPA = "kueue.x-k8s.io/", ("vpaUpdates", "vpaObservedContainers", "vpaInPlaceUpdated")
"""Prefix of labels and annotations of Kueue, and annotations of the autoscaler."""
READ = {"Job": ("batch/v1", "jobs"), "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets")}
"""API group and resource of the owners that are read."""
AUTOSCALERS = "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalers"
HASH = "pod-template-hash"


def controller_of(each: Plain) -> Plain:
    """Return the owner reference of the controller of an object; empty: it has none."""
    owners = each["metadata"].get("ownerReferences") or ()
    found: Plain = next((o for o in owners if o.get("controller")), {})
    return found


def marked(each: Plain) -> str:
    """Return which manager an object has by its labels and annotations; "": none is seen."""
    about = each["metadata"]
    notes = about.get("annotations") or {}
    mark = next((m for m in (*(about.get("labels") or {}), *notes) if m.startswith(KUEUE)), "")
    if mark:
        return f"Kueue manages it: {about['name']} has {mark}"
    mark = next((m for m in VPA if m in notes), "")
    return f"a VerticalPodAutoscaler manages it: {about['name']} has {mark}" if mark else ""


def manager_of(api: Api, pod: Plain) -> str:
    """Return which manager a pod has, or a Job or JobSet that owns it; "": none. Unreadable owners
    are ignored, because the pod itself shows most managers.
    """
    above = list(_owners(api, pod))
    why = next(filter(None, map(marked, (pod, *above))), "")
    return why or _autoscaler(api, pod, above)


def _owners(api: Api, pod: Plain) -> Iterator[Plain]:
    each, namespace = pod, pod["metadata"]["namespace"]
    while (owner := controller_of(each)).get("kind") in READ:
        group, plural = READ[owner["kind"]]
        name = quote(owner["name"], safe="")
        try:
            with suppressed(HTTPStatus.NOT_FOUND):
                each = api.get(f"/apis/{group}/namespaces/{namespace}/{plural}/{name}")
                yield each
                continue
        except Denied:
            pass
        return


def _autoscaler(api: Api, pod: Plain, above: list[Plain]) -> str:
    """Return the autoscaler of a pod, unless it only recommends; "": none."""
    owners = [controller_of(each) for each in (pod, *above)]
    named = {(o["kind"], o["name"]) for o in owners if o}
    ending = f"-{(pod['metadata'].get('labels') or {}).get(HASH)}"
    named |= {("Deployment", n.removesuffix(ending)) for kind, n in named if kind == "ReplicaSet"}
    try:
        with suppressed(HTTPStatus.NOT_FOUND):  # it is not installed
            found, _ = api.list(AUTOSCALERS.format(pod["metadata"]["namespace"]))
            for each in found:
                target = each["spec"].get("targetRef") or {}
                mode = (each["spec"].get("updatePolicy") or {}).get("updateMode")
                if mode != "Off" and (target.get("kind"), target.get("name")) in named:
                    return f"the VerticalPodAutoscaler {each['metadata']['name']} manages it"
    except Denied:
        pass
    return ""
