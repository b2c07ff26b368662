"""A thin client of the API server, in plain JSON.

The official client supplies configuration, tokens, certificates and connections. Errors are raised
as Headway's own.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from time import sleep
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from headway import failpoint
from headway.core.model.units import Seconds
from headway.errors import ConfigError, Declined, Denied, Unreachable
from headway.spec.manifest import GROUP, PLURAL, VERSION

Plain = dict[str, Any]

RULES = ("exceeded quota", "violates PodSecurity", "admission webhook")
"""Parts of messages of a 403 that is due to a rule of the namespace, not to a missing permission.
"""
TIMEOUT: Seconds = 10.0
BUSY, LONGEST_WAIT = 5, 10.0
"""Maximum number of repetitions, and maximum pause, if the API server asks to repeat a call later.
"""
PAGE = 500


def pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def jobs_path(namespace: str) -> str:
    """Return the path of the TrainingJobs in a namespace; "": in all."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{within}/{PLURAL}"


class Api:
    def __init__(self, client: ApiClient, namespace: str = "default") -> None:
        self._client, self.namespace = client, namespace
        self.url = str(client.configuration.host)
        self.calls: Counter[tuple[str, str]] = Counter()
        """Answers by verb and class of status, such as 2xx."""
        self.pages = 0
        """Number of pages of lists that were read."""
        self.may_write: Callable[[], bool] = lambda: True
        """Called before each write except to a lease: a leader that was paused must not write."""

    def get(self, path: str, *, timeout: Seconds | None = None, **query: Any) -> Plain:
        return self._read(self._request("GET", path, query=query, timeout=timeout))

    def list(
        self, path: str, slim: Callable[[Plain], None] = lambda each: None, **query: Any
    ) -> tuple[list[Plain], str]:
        """Return all objects of a kind, read page by page, and the version of the list. `slim` is
        called with each object before the next page is read.
        """
        found: list[Plain] = []
        while True:
            page = self.get(path, limit=PAGE, **query)
            self.pages += 1
            for each in page["items"]:
                slim(each)
            found += page["items"]
            about = page["metadata"]
            if not about.get("continue"):
                return found, str(about["resourceVersion"])
            query["continue"] = about["continue"]

    def watch(self, path: str, version: str, timeout: Seconds, **query: Any) -> Iterator[Plain]:
        """Yield changes since a version until the server closes the connection after `timeout`."""
        query |= {"watch": "true", "resourceVersion": version, "timeoutSeconds": int(timeout)}
        query["allowWatchBookmarks"] = "true"
        answer = self._request("GET", path, query=query, timeout=timeout + TIMEOUT)
        rest = b""
        try:
            for chunk in answer.stream(2**16):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        except ValueError:
            raise self._invalid() from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        finally:
            answer.close()

    def create(self, path: str, body: Plain, *, timeout: Seconds | None = None) -> Plain:
        return self._read(self._request("POST", path, body, timeout=timeout))

    def patch(self, path: str, body: Plain | Sequence[Plain], *, kind: str = "merge") -> Plain:
        """Change an object. `kind` of patch: merge, strategic-merge or json."""
        return self._read(self._request("PATCH", path, body, f"application/{kind}-patch+json"))

    def replace(self, path: str, body: Plain, *, timeout: Seconds | None = None) -> Plain:
        return self._read(self._request("PUT", path, body, timeout=timeout))

    def delete(self, path: str, *, grace: Seconds | None = None, uid: str = "") -> bool:
        """Delete an object. Return False if it does not exist any more, or if another one has its
        name now.
        """
        body: Plain = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            body["gracePeriodSeconds"] = int(grace)
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self._read(self._request("DELETE", path, body))
        except Declined as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise
            return False
        return True

    def _read(self, answer: urllib3.BaseHTTPResponse) -> Plain:
        try:
            found: Plain = json.loads(answer.data or b"{}")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        except ValueError:
            raise self._invalid() from None
        return found

    def _request(
        self,
        method: str,
        path: str,
        body: Plain | Sequence[Plain] | None = None,
        kind: str = "application/json",
        *,
        query: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
    ) -> urllib3.BaseHTTPResponse:
        self._check_leader(method, path)
        timeout = timeout or TIMEOUT
        headers = {"Accept": "application/json", "User-Agent": "headway"}
        if body is not None:
            headers["Content-Type"] = kind
        asked = f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"
        try:
            auth = self._client.configuration.auth_settings().get("BearerToken")
            if auth:
                headers[str(auth["key"])] = str(auth["value"])
            send = partial(
                self._client.rest_client.pool_manager.request,
                method,
                asked,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=urllib3.Timeout(connect=min(TIMEOUT, timeout), read=timeout),
                retries=False,
                preload_content=False,
            )
            answer = send()
            for _ in range(BUSY):
                wait = _retry_after(answer)
                if wait is None:
                    break
                answer.drain_conn()
                sleep(wait)
                self._check_leader(method, path)
                answer = send()
            self.calls[method, f"{answer.status // 100}xx"] += 1
            if answer.status >= 400:
                self._decline(answer, f"{method} {path}")
        except config.ConfigException as error:  # tokens expire, and their files change
            raise Unreachable(f"there is no token for {self.url}: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        return answer

    def _check_leader(self, method: str, path: str) -> None:
        if method == "GET":
            return
        failpoint.hit("kubernetes.write")
        if "/leases" not in path and not self.may_write():
            raise Unreachable("another process leads: nothing is written", where=path)

    def _decline(self, answer: urllib3.BaseHTTPResponse, what: str) -> None:
        data, status = answer.data, answer.status
        try:
            said = str(json.loads(data)["message"])
        except (ValueError, KeyError, TypeError):
            said = data.decode(errors="replace")[:200] or f"status {status}"
        if status in (401, 403):
            hint = "`headway kubernetes manifests` has the rights that are needed"
            if any(words in said for words in RULES):
                hint = "a quota or a policy of the namespace is against it"
            raise Denied(f"the cluster does not allow it: {said}", where=what, hint=hint)
        if status >= 500 or status == 429:
            raise Unreachable(f"the API server cannot answer now: {said}", where=what)
        raise Declined(said, status=status, where=what)

    def _invalid(self) -> Unreachable:
        return Unreachable(f"invalid response from {self.url}; is it a Kubernetes API server?")

    def _unreachable(self, error: Exception) -> Unreachable:
        self.calls["any", "unreachable"] += 1
        return Unreachable(f"the API server at {self.url} does not answer: {error}")


def _retry_after(answer: urllib3.BaseHTTPResponse) -> Seconds | None:
    """Return how long to wait before the call is repeated; None: it must not be repeated."""
    said = answer.headers.get("Retry-After", "")
    if answer.status != HTTPStatus.TOO_MANY_REQUESTS or not said.isdecimal():
        return None
    return min(float(said), LONGEST_WAIT)


@contextmanager
def suppressed(*statuses: HTTPStatus) -> Iterator[None]:
    """Ignore these answers of the API server."""
    try:
        yield
    except Declined as error:
        if error.status not in statuses:
            raise


def connect(kubeconfig: str | None = None) -> Api:
    """Connect with the service account of this pod in a cluster, elsewhere with the kubeconfig."""
    made, space = Configuration(), "default"
    try:
        if not kubeconfig and os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(client_configuration=made)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, client_configuration=made
            )
            _, active = config.list_kube_config_contexts(kubeconfig)  # type: ignore[no-untyped-call]
            space = active["context"].get("namespace") or space
    except config.ConfigException as error:
        raise ConfigError(
            f"no cluster is known: {error}",
            hint="set KUBECONFIG, or try `kubectl cluster-info` first",
        ) from None
    made.connection_pool_maxsize = 16
    return Api(ApiClient(made), space)
