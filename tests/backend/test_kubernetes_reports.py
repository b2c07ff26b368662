"""Reports of pods become observations and the status of their jobs."""

import json
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest
from patience import PATIENCE, wait_for

from fake_cluster import Headway, run_all, status
from fake_cluster import task as plain_task
from headway.backend.clock import Clock
from headway.backend.kubernetes.platform import job_progress
from headway.backend.kubernetes.platform.job_progress import duration
from headway.backend.kubernetes.platform.platform import KubernetesPlatform
from headway.backend.kubernetes.platform.pod_reports import Endpoint
from headway.backend.kubernetes.reports import receiver as receivers
from headway.backend.kubernetes.reports import report_annotation
from headway.backend.kubernetes.reports.pod_metrics import STALE, PodMetrics, PodReader
from headway.backend.kubernetes.reports.report_annotation import REPORTED
from headway.backend.kubernetes.reports.token_review import TokenReviewer
from headway.backend.live import LiveBackend
from headway.backend.usage import UsageSample
from headway.spec.manifest import TrainingJobSpec
from headway.spec.runnable import RunnableJob
from reporting import PAIR, post, served, token

AGENTS = "headway-agent"
URL = "https://there:8443"


@pytest.fixture
def leader(backends):
    """It tells pods where to report."""
    backend = backends()
    backend.platform.trust(Endpoint(URL, PAIR.certificate))
    backend.platform.receiver.agents = AGENTS
    return Headway(backend)


@pytest.fixture
def running(fake, leader):
    """A job that runs, and its pod."""
    fake.submit("x", spec={"tasks": [plain_task()], "totalSteps": 100})
    leader.until(lambda: fake.all("pods"))
    leader.until(lambda: run_all(fake) or status(fake, "x").get("phase") == "Running")
    (pod,) = fake.all("pods")
    return pod


def told(leader, *reports, uid):
    return leader.backend.platform.receiver.from_pod(uid, list(reports), "sdk")


def uid_of(pod):
    return pod["metadata"]["uid"]


def sample(cpu, memory=2**20):
    return {"cpu": cpu, "memory": memory}


def test_a_pod_knows_where_to_report_with_a_token_of_its_own(running):
    (container,) = running["spec"]["containers"]
    env = {e["name"]: e["value"] for e in container["env"]}
    assert env["HEADWAY_REPORTS_URL"] == "https://there:8443/v1/reports"
    assert env["KUBEFLOW_TRAINER_SERVER_URL"] == "https://there:8443/kubeflow"
    (volume,) = [v["projected"] for v in running["spec"]["volumes"] if "projected" in v]
    token, bundle = volume["sources"]
    assert token["serviceAccountToken"]["audience"] == "headway"
    assert "trust-bundle" in bundle["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"]
    notes = running["metadata"]["annotations"]
    assert notes["headway.dev/trust-bundle"] == PAIR.certificate
    assert (notes["headway.dev/metric"], "headway.dev/pattern" in notes) == ("loss", False)


def bundle(fake, name="x-worker-0-1"):
    notes = fake.get("pods", name)["metadata"]["annotations"]
    return notes["headway.dev/trust-bundle"]


def test_a_pod_that_exists_before_there_is_a_certificate_gets_it_later(fake, backends):
    leader = Headway(backends())
    leader.backend.platform.trust(Endpoint(URL))
    fake.submit("x")
    leader.until(lambda: fake.all("pods"))
    assert bundle(fake) == ""
    leader.backend.platform.trust(Endpoint(URL, "first"))
    leader.until(lambda: bundle(fake) == "first")
    fake.submit("y")
    leader.until(lambda: len(fake.all("pods")) == 2)
    fake.pod("y-worker-0-1", "Failed")
    leader.backend.close()
    later = Headway(backends())
    later.backend.platform.trust(Endpoint(URL, "renewed"))
    later.until(lambda: bundle(fake) == "renewed")
    assert bundle(fake, "y-worker-0-1") == "first", "it reports no more"


def test_an_operator_gives_pods_of_runs_the_certificate_and_a_run_does_not(fake, backends):
    fake.submit("x", labels={"headway.dev/run": "r"})
    owner = {"kind": "TrainingJob", "controller": True, "uid": "u"}
    about = {"name": "p", "namespace": "default", "labels": {"headway.dev/run": "r"}}
    about |= {"annotations": {"headway.dev/trust-bundle": ""}}
    foreign = {"metadata": {**about, "name": "q"}, "spec": {}, "status": {}}
    fake.put("pods", foreign, "default")
    pod = {"metadata": {**about, "ownerReferences": [owner]}, "spec": {}, "status": {}}
    fake.put("pods", pod, "default")
    leader = Headway(backends())
    leader.backend.platform.trust(Endpoint(URL, "it"))
    leader.until(lambda: bundle(fake, "p") == "it")
    assert bundle(fake, "q") == "", "not a pod of Headway"


def test_progress_is_written_also_after_another_replica_was_started(fake, leader, running):
    leader.backend.platform.records["default/x"].state.attempt += 1
    told(leader, {"step": 30, "loss": 0.2}, uid=uid_of(running))
    leader.until(lambda: status(fake, "x").get("progress", {}).get("step") == 30)


def test_reports_are_in_the_observation_and_in_the_status(fake, leader, running):
    backend = leader.backend
    node = running["spec"]["nodeName"]
    backend.platform.receiver.from_node(node, {uid_of(running): {"usage": sample(1.0), "at": 1.0}})
    backend.observe(look=(node,))
    answer = told(leader, {"step": 10, "loss": 0.5}, {"step": 20, "loss": 0.3}, uid=uid_of(running))
    assert answer == {"checkpoint": False}
    backend.platform.receiver.from_node(node, {uid_of(running): {"usage": sample(3.0), "at": 2.0}})
    (report,) = backend.observe(look=(node,)).reports
    assert (report.step, report.value, report.high) == (20.0, 0.4, 0.5)
    assert report.usage.cpu > 0
    leader.until(lambda: status(fake, "x").get("progress", {}).get("step") == 20)
    said = status(fake, "x")["progress"]
    assert (said["done"], said["value"], said["totalSteps"]) == ("20%", "0.3", 100)
    assert (said["cpu"], said["memory"]) == ("2000m", "1Mi")


def test_without_an_agent_the_loss_is_observed_and_usage_is_unknown(leader, running):
    told(leader, {"step": 10, "loss": 0.5}, uid=uid_of(running))
    (report,) = leader.backend.observe(look=(running["spec"]["nodeName"],)).reports
    assert (report.value, report.usage) == (0.5, None)


def test_the_progress_is_written_at_intervals(fake, leader, running, monkeypatch):
    monkeypatch.setattr(job_progress, "EVERY", 1.0)
    count = len([c for c in fake.calls if c[3] == "status"])
    for step in range(50):
        told(leader, {"step": step, "loss": 1.0}, uid=uid_of(running))
        leader.backend.wait(0.01)
    leader.until(lambda: status(fake, "x").get("progress", {}).get("step") == 49)
    assert len([c for c in fake.calls if c[3] == "status"]) - count <= 4


def test_a_next_leader_keeps_the_progress_and_a_report_after_the_end_counts(
    fake, leader, running, backends, monkeypatch
):
    monkeypatch.setattr(job_progress, "EVERY", 0.1)
    told(leader, {"step": 50, "loss": 1.0}, uid=uid_of(running))
    leader.until(lambda: status(fake, "x").get("progress", {}).get("step") == 50)
    leader.backend.close()
    after = Headway(backends())
    fake.pod(running["metadata"]["name"], "Succeeded")
    after.until(lambda: status(fake, "x")["phase"] == "Succeeded")
    assert status(fake, "x")["progress"]["step"] == 50
    told(after, {"step": 100, "loss": 0.1}, uid=uid_of(running))
    after.until(lambda: status(fake, "x")["progress"]["done"] == "100%")


def test_an_agent_reports_for_the_pods_of_its_node_only(leader, running):
    receiver, uid = leader.backend.platform.receiver, uid_of(running)
    here = running["spec"]["nodeName"]
    there = "a" if here == "b" else "b"
    line = {"log": [[7, 0.5, 0.6, 2, 70]], "position": "123", "line": "step 7 loss 0.5"}
    assert receiver.from_node(there, {uid: line}) == {"pods": {}}
    key = "default", running["metadata"]["name"]
    assert receiver.of(key) is None
    answer = receiver.from_node(here, {uid: line, "unknown": line})
    wanted = {"metric": "loss", "container": "training", "position": "123", "sdk": False}
    assert answer == {"pods": {uid: wanted}}
    found = receiver.of(key)
    assert (found.step, found.value, found.total, found.heard.high) == (7, 0.5, 70, 0.6)
    assert receiver.counts == {"log": 2}
    told(leader, {"step": 9, "loss": 0.4}, uid=uid)
    receiver.from_node(here, {uid: line})
    assert found.step == 9, "it reports by itself"


def test_the_log_of_a_pod_is_read_for_a_while_after_its_end(fake, leader, running):
    receiver, node = leader.backend.platform.receiver, running["spec"]["nodeName"]
    for ago, read in ((5, True), (receivers.LAST_WORDS + 60, False)):
        end = (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"state": {"terminated": {"exitCode": 0, "finishedAt": end}}, "name": "training"}
        fake.pod(running["metadata"]["name"], "Succeeded", containerStatuses=[ended])
        leader.until(lambda read=read: bool(receiver.from_node(node, {})["pods"]) is read)
    fake.pod(running["metadata"]["name"], "Succeeded", containerStatuses=[])
    leader.until(lambda: not receiver.from_node(node, {})["pods"])


class Loop:
    """Runs beside the test, as the loop does beside the server."""

    def __init__(self, backend):
        self.backend, self.stop = backend, Event()
        self.thread = Thread(target=self._run)

    def _run(self):
        while not self.stop.is_set():
            self.backend.wait(0.05)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(PATIENCE)


def test_only_what_the_loop_has_taken_in_is_acknowledged(
    fake, leader, running, tmp_path, monkeypatch
):
    uid, node = uid_of(running), running["spec"]["nodeName"]
    names = ("pod", "stranger", "free", "agent", "vault")
    pod, stranger, free, agent, vault = (token(name) for name in names)
    fake.tokens = {
        pod: ("headway", "default:default", uid, node),
        stranger: ("headway", "default:default", "another-uid", node),
        free: ("headway", "default:default", "", ""),
        agent: ("headway", f"{AGENTS}:headway-agent", "agent-uid", node),
        vault: ("vault", "default:default", uid, node),
    }
    receiver = leader.backend.platform.receiver
    body = {"reports": [{"step": 3, "loss": 0.5}], "pod": "another", "uid": "another"}
    kubeflow = {"trainerStatus": {"progressPercentage": 40}}
    monkeypatch.setattr(receivers, "ANSWER", 0.2)
    identify = TokenReviewer(fake.api()).identify
    with served(tmp_path, identify, receiver.routes()) as there:
        assert post(there, "/v1/reports", body, pod)[0] == 503, "the loop is busy"
        monkeypatch.setattr(receivers, "ANSWER", PATIENCE)
        with Loop(leader.backend):
            assert post(there, "/v1/reports", body, vault)[0] == 401
            assert post(there, "/v1/reports", body, pod) == (200, {"checkpoint": False})
            receiver.checkpoints.add(uid)
            assert post(there, "/kubeflow", kubeflow, pod) == (200, {"checkpoint": True})
            assert post(there, "/v1/reports", body, stranger)[0] == 404
            assert post(there, "/v1/reports", body, free)[0] == 403
            assert post(there, "/v1/node", {"pods": {}}, pod)[0] == 403
            assert list(post(there, "/v1/node", {"pods": {}}, agent)[1]["pods"]) == [uid]
            wrong = {"pods": {uid: {"usage": {"cores": 1}, "at": 1}}}
            assert post(there, "/v1/node", wrong, agent)[0] == 400
            for bad in ([], {}, {"reports": {}}, {"reports": [{}] * 1001}):
                assert post(there, "/v1/reports", bad, pod)[0] == 400
            assert post(there, "/kubeflow", {}, pod)[0] == 400
            assert post(there, "/v1/node", {}, agent)[0] == 400
    found = receiver.of(("default", running["metadata"]["name"]))
    assert (found.step, found.reports) == (40.0, 2), "what was not acknowledged was not taken in"


def test_usage_continues_until_the_next_sample_and_is_unknown_after_a_while():
    metrics = PodMetrics("loss")
    assert (metrics.usage(0.0), metrics.cores(), metrics.memory) == (None, None, None)
    metrics.measured(UsageSample(cpu=10.0), 100.0, 0.0)
    assert metrics.usage(1.0).cpu == 10.0
    metrics.measured(UsageSample(cpu=11.0), 102.0, 2.1)
    assert metrics.cores() == 0.5
    assert metrics.usage(3.1).cpu == 11.5
    assert metrics.usage(None).cpu == 11.0
    assert metrics.usage(2.2 + STALE) is None


def test_the_rate_of_steps_is_that_of_the_last_minutes():
    metrics = PodMetrics("loss")
    assert metrics.rate() is None
    for at in range(0, 301, 10):
        metrics.hear([{"step": at if at < 200 else 200 + 10 * (at - 200), "loss": 1.0}], at)
    assert metrics.rate() == pytest.approx(10, rel=0.3)
    metrics.hear([{"step": 1, "loss": 1.0}], 310)
    assert metrics.rate() is None, "it began anew"


def test_a_reader_waits_for_its_pod_and_says_where_the_metric_was_found():
    pods = {}
    reader = PodReader("loss", lambda: pods.get("x"))
    reader.listen()
    assert (reader.spoke, reader.found) == (False, "")
    pods["x"] = PodMetrics("loss")
    pods["x"].parsed([[1, 0.5, 0.5, 1, None]], 0.0)
    pods["x"].line = "step 1 loss 0.5"
    pods["x"].noted("trouble")
    reader.listen()
    assert reader.found == 'loss in its log, line "step 1 loss 0.5"'
    pods["x"].hear([{"step": 2, "loss": 0.4}], 1.0)
    reader.listen()
    heard = reader.report()
    assert (reader.found, heard.count, heard.trouble) == ("loss by the SDK", 2, "trouble")
    assert heard.mean == pytest.approx(0.45)


def test_times_are_shown_as_kubectl_shows_ages():
    assert [duration(s) for s in (0, 61, 3600, 90_000)] == ["0s", "1m1s", "1h", "1d1h"]
    assert duration(1e300) == "100d"
    assert wait_for(lambda: True)


# -- runs that pods cannot reach -------------------------------------------------------------------


def test_an_operator_passes_the_reports_of_a_run_on(fake, backends, tmp_path, monkeypatch):
    monkeypatch.setattr(report_annotation, "EVERY", 0.1)
    spec = TrainingJobSpec.model_validate({"tasks": [plain_task()], "totalSteps": 100})
    job = RunnableJob(id="x", at=0.0, spec=spec.to_core(kind=""), commands={}, manifest=spec)
    jobs, clock = {"x": job}, Clock()
    platform = KubernetesPlatform(fake.api(), jobs, clock, namespace="default", run="r1")
    run = Headway(LiveBackend(platform, tmp_path, jobs, clock))
    operator = Headway(backends())
    run.until(lambda: fake.all("pods"))
    run.until(lambda: run_all(fake) or status(fake, "x").get("phase") == "Running")
    (pod,) = fake.all("pods")
    node, receiver = pod["spec"]["nodeName"], operator.backend.platform.receiver
    operator.until(lambda: uid_of(pod) in receiver.from_node(node, {})["pods"])
    for at in (1.0, 2.0):
        line = [[10 * at, 1 / at, 1.0, 1, None]]
        said = {"log": line, "usage": sample(at), "at": at, "line": "step 10 loss 1"}
        receiver.from_node(node, {uid_of(pod): said})
    operator.until(lambda: REPORTED in fake.all("pods")[0]["metadata"]["annotations"])
    run.until(lambda: status(fake, "x").get("progress", {}).get("step") == 20)
    run.backend.observe(look=(node,))
    receiver.from_node(node, {uid_of(pod): {"log": [[30, 0.2, 0.2, 1, None]]}})

    def passed_on():
        note = fake.all("pods")[0]["metadata"]["annotations"][REPORTED]
        return json.loads(note)["log"][0][0]

    operator.until(lambda: passed_on() == 30)
    found = []

    def observed():
        run.backend.wait(0.05)
        found.extend(run.backend.observe(look=(node,)).reports)
        return found and found[-1].step == 30

    wait_for(observed)
    assert 0.2 in [r.value for r in found]
    assert run.backend.monitor.replicas["x/worker-0"].last.memory == 2**20
    fake.change(
        "pods",
        pod["metadata"]["name"],
        {"metadata": {"annotations": {REPORTED: "{"}}},
    )
    fake.pod(pod["metadata"]["name"], "Succeeded")
    run.until(lambda: run.backend.over)
    run.backend.close()


def test_a_new_job_of_the_same_name_shows_its_own_progress(fake, leader, running):
    fake.pod(running["metadata"]["name"], "Failed")
    leader.until(lambda: fake.get("pods", "x-worker-0-2"))
    leader.until(lambda: run_all(fake) or status(fake, "x").get("phase") == "Running")
    told(leader, {"step": 90, "loss": 0.1}, uid=uid_of(fake.get("pods", "x-worker-0-2")))
    leader.until(lambda: status(fake, "x").get("progress", {}).get("step") == 90)
    fake.drop("trainingjobs", "x")
    for pod in fake.all("pods"):
        fake.drop("pods", pod["metadata"]["name"])
    leader.until(lambda: "default/x" not in leader.backend.platform.records)
    fake.submit("x")
    leader.until(lambda: fake.get("pods", "x-worker-0-1"))
    leader.until(lambda: run_all(fake) or status(fake, "x").get("phase") == "Running")
    told(leader, {"step": 5, "loss": 0.9}, uid=uid_of(fake.get("pods", "x-worker-0-1")))
    leader.until(lambda: status(fake, "x").get("progress", {}).get("step") == 5)
