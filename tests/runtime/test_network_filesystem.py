"""A data directory on a network filesystem is refused, with what, where and what to do."""

import json
from pathlib import Path

import pytest

from headway.runtime import network_filesystem
from headway.runtime.network_filesystem import Mount, mounts, network_mount

TABLE = r"""
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw
40 27 0:50 / /home rw,relatime shared:9 master:2 - autofs systemd-1 rw,fd=41
41 40 0:51 /export/ann /home/ann rw,relatime - nfs4 server:/export/ann rw,vers=4.2
42 41 8:1 / /home/ann/scratch rw - xfs /dev/sda1 rw
43 27 0:52 / /mnt/my\040disk rw - cifs //nas/my\040disk rw
44 27 0:53 / /twice rw - nfs old:/ rw
45 27 8:2 / /twice rw - ext4 /dev/sda2 rw
46 27 0:54 / /remote rw - fuse.sshfs ann@host: rw
47 27 8:3 / /home/ann2 rw - ext4 /dev/sda3 rw
no mount
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    def write(text):
        path = tmp_path / "mountinfo"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setattr(network_filesystem, "MOUNTS", path)

    return write


def test_the_table_of_mounts_is_parsed():
    found = mounts(TABLE)
    assert len(found) == 10
    assert found[0] == Mount("/", "ext4")
    assert found[5] == Mount("/mnt/my disk", "cifs")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ann/headway", "nfs4"),
        ("/home/ann", "nfs4"),
        ("/home/ann/scratch/headway", None),
        ("/home/ann2/headway", None),
        ("/home/bob", None),
        ("/mnt/my disk/x", "cifs"),
        ("/remote/data", "fuse.sshfs"),
        ("/twice/data", None),
        ("/var/lib/headway", None),
    ],
)
def test_the_innermost_mount_of_a_path_decides(table, path, kind):
    table(TABLE)
    found = network_mount(Path(path))
    assert (found.kind if found else None) == kind


def test_without_a_table_of_mounts_no_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(network_filesystem, "MOUNTS", tmp_path / "none")
    assert network_mount(tmp_path) is None


def test_a_server_is_not_started_on_a_network_filesystem(headway, table, tmp_path):
    table(f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {tmp_path} rw - nfs4 nas:/home rw\n")
    ran = headway("serve", "--data", tmp_path / "data")
    assert ran.code == 2
    assert f"network filesystem (nfs4, mounted at {tmp_path})" in ran.err
    assert str(tmp_path / "data") in ran.err
    assert "HEADWAY_DATA=DIRECTORY" in ran.err
    assert not (tmp_path / "data").exists()


def test_doctor_names_a_network_filesystem(headway, table, tmp_path):
    table(f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {tmp_path} rw - nfs nas:/home rw\n")
    ran = headway("doctor", "--json", "--data", tmp_path / "data")
    found = next(f for f in json.loads(ran.out) if f["what"] == "data directory")
    assert found["state"] == "limited"
    assert f"on the network (nfs, mounted at {tmp_path})" in found["found"]
    assert "headway serve needs a directory on a local disk" in found["hint"]
