"""Files in a job's folder are opened without following links and without blocking."""

import os
from stat import S_IMODE

import pytest

from headway.backend.checkpoints import newest
from headway.backend.docker.container_spec import grant_access
from headway.backend.docker.log_follower import LogFollower
from headway.backend.job_store import prepare
from headway.core.model.job import Mode
from headway.metrics import job_files


@pytest.fixture
def secret(tmp_path):
    """What belongs to another user; a job has put links to it into its folder."""
    there = tmp_path / "secret"
    there.mkdir()
    (there / "file").write_text("secret")
    there.chmod(0o700)
    return there


@pytest.fixture
def folder(tmp_path):
    there = tmp_path / "replica"
    there.mkdir()
    return there


def owners(secret):
    return [(p.stat().st_uid, S_IMODE(p.stat().st_mode)) for p in (secret, secret / "file")]


@pytest.mark.parametrize("user", ["1000:1000", "trainer"])
@pytest.mark.parametrize("link", ["checkpoint", "checkpoint/inner", "checkpoint/file"])
@pytest.mark.skipif(os.getuid() != 0, reason="only root changes owners")
def test_owners_are_changed_of_links_and_not_of_what_they_lead_to(folder, secret, link, user):
    before = owners(secret)
    if link != "checkpoint":
        (folder / "checkpoint").mkdir()
    target = secret / "file" if link.endswith("file") else secret
    (folder / link).symlink_to(target)
    if link == "checkpoint":
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            grant_access(user, folder)
    else:
        grant_access(user, folder)
    assert owners(secret) == before
    if user == "1000:1000" and link != "checkpoint":
        assert (folder / "checkpoint").stat().st_uid == 1000
        assert (folder / link).lstat().st_uid == 1000


@pytest.mark.parametrize("name", ["attempt", "ask", "attempt.part"])
def test_an_attempt_is_prepared_without_writing_through_links(folder, secret, name):
    (folder / name).symlink_to(secret / "file")
    prepare(folder, 7)
    assert (secret / "file").read_text() == "secret"
    assert (folder / "attempt").read_text() == "7"
    assert not (folder / "attempt").is_symlink()


def test_a_link_in_place_of_the_checkpoints_is_refused(folder, secret):
    (folder / "checkpoint").symlink_to(secret)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        prepare(folder, 1)
    (secret / "LATEST").write_text("secret")
    assert newest(folder, Mode.SDK).mark == ""
    assert newest(folder, Mode.SIGTERM).mark == ""


def test_a_request_for_a_checkpoint_does_not_touch_what_a_link_leads_to(folder, secret):
    (folder / "ask").symlink_to(secret / "new")
    job_files.replace_file(folder, "ask", "")
    assert not (secret / "new").exists()
    job_files.remove_file(folder, "ask")
    assert list(folder.iterdir()) == []


class Engine:
    """A client whose container prints one line."""

    def get(self, path):
        del path
        return {"Config": {"Tty": True}}

    def stream(self, path, **options):
        del path, options
        return [b"2026-01-01T00:00:00.000000000Z printed\n"]


@pytest.mark.parametrize("link", [False, True])
def test_output_is_not_copied_through_a_link(folder, secret, link):
    if link:
        (folder / "out.log").symlink_to(secret / "file")
    follower = LogFollower(Engine(), "c" * 64, folder, folder.parent / "records" / "log.1")
    assert follower.over.wait(30)
    assert (secret / "file").read_text() == "secret"
    assert bool(follower.error) is link
    if not link:
        assert (folder / "out.log").read_text() == "printed\n"


def test_checkpoint_files_are_found_without_following_links(folder, secret):
    (folder / "checkpoint" / "a").mkdir(parents=True)
    (folder / "checkpoint" / "a" / "weights").write_text("1234")
    (folder / "checkpoint" / "link").symlink_to(secret)
    os.mkfifo(folder / "checkpoint" / "pipe")
    assert [s.st_size for s in job_files.files(folder, "checkpoint")] == [4]
    assert newest(folder, Mode.SIGTERM).mark


def test_a_missing_folder_has_no_files(folder):
    assert list(job_files.files(folder, "checkpoint")) == []
    assert job_files.size(folder, "out.log") == 0
