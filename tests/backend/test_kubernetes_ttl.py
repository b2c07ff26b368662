"""A job that asks not to be kept is deleted when its time has come, by whoever leads then."""

from datetime import UTC, datetime, timedelta
from time import monotonic

from fake_cluster import task


def ended(fake, name, *, kept, ago=0.0):
    """A job that came to its end so many seconds ago."""
    at = datetime.now(UTC) - timedelta(seconds=ago)
    about = {"name": name, "namespace": "default", "generation": 1}
    said = {"phase": "Succeeded", "finishTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    spec = {"tasks": [task()], "ttlSecondsAfterFinished": kept}
    fake.put("trainingjobs", {"metadata": about, "spec": spec, "status": said})


def until(backend, claim, patience=10.0):
    end = monotonic() + patience
    while not claim():
        assert monotonic() < end, "it never came true"
        backend.wait(0.05)


def names(fake):
    return {j["metadata"]["name"] for j in fake.all("trainingjobs")}


def test_a_new_leader_deletes_what_an_old_one_left(fake, backends):
    ended(fake, "old", kept="1m", ago=100)
    ended(fake, "young", kept="1m", ago=10)
    fake.submit("waits", spec={"tasks": [task()], "ttlSecondsAfterFinished": 0})
    found = backends()
    until(found, lambda: "old" not in names(fake))
    assert names(fake) == {"young", "waits"}


def test_it_is_kept_for_as_long_as_it_asks(fake, backends):
    found = backends()
    began = monotonic()
    ended(fake, "x", kept=1)
    until(found, lambda: not names(fake))
    assert monotonic() - began >= 1


def test_another_of_the_name_is_left_alone(fake, backends):
    found = backends()
    ended(fake, "x", kept=1)
    until(found, lambda: "default/x" in found.controller.jobs)
    fake.drop("trainingjobs", "x")
    fake.submit("x")
    until(found, lambda: found.jobs.get("default/x") and found.jobs["default/x"].ttl is None)
    end = monotonic() + 1.5
    until(found, lambda: monotonic() > end)
    assert names(fake) == {"x"}


def test_a_delete_that_fails_is_tried_again(fake, backends):
    fake.refuse["DELETE", "trainingjobs", ""] = (500, "not now")
    ended(fake, "x", kept=0)
    found = backends()
    until(found, lambda: [c for c in fake.calls if c[0] == "DELETE"])
    assert names(fake) == {"x"}
    fake.refuse.clear()
    until(found, lambda: not names(fake))


def test_what_cannot_be_understood_stays(fake, backends):
    ended(fake, "x", kept="a while")
    assert not backends().controller.jobs
