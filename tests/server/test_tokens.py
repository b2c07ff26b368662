"""Tokens of clients over TCP: created once, stored as hashes, revoked at once."""

import json
import os

import pytest

from headway.errors import ConfigError, UnknownName
from headway.server.tokens import Tokens


def test_a_token_is_known_until_it_is_revoked(tmp_path):
    tokens, server = Tokens(tmp_path), Tokens(tmp_path)
    assert server.name_of("headway-x") is None
    laptop, other = tokens.create("laptop"), tokens.create("ann@desk")
    assert (server.name_of(laptop), server.name_of(other)) == ("laptop", "ann@desk")
    assert [token.name for token in tokens.list()] == ["laptop", "ann@desk"]
    tokens.revoke("laptop")
    assert server.name_of(laptop) is None
    assert server.name_of(other) == "ann@desk"
    assert tokens.create("laptop") != laptop


def test_only_hashes_are_stored_in_a_file_of_its_user(tmp_path):
    os.umask(before := os.umask(0))
    made = Tokens(tmp_path / "data").create("laptop")
    path = tmp_path / "data" / "tokens.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert made not in path.read_text()
    assert made.removeprefix("headway-") not in path.read_text()
    assert os.umask(before) == before


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 64, "a/b", "é"])
def test_a_name_is_short_and_plain(tmp_path, name):
    with pytest.raises(ConfigError, match="not a name"):
        Tokens(tmp_path).create(name)


def test_names_are_unique_and_unknown_ones_are_refused(tmp_path):
    tokens = Tokens(tmp_path)
    tokens.create("laptop")
    with pytest.raises(ConfigError, match="already"):
        tokens.create("laptop")
    with pytest.raises(UnknownName, match="lapto"):
        tokens.revoke("lapto")


def test_a_damaged_file_names_itself(tmp_path):
    (tmp_path / "tokens.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        Tokens(tmp_path).list()


def _damaged(path):
    path.write_text("{")


def _of_others(path):
    path.chmod(0o622)


def _a_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [_damaged, _of_others, _a_pipe])
def test_of_a_file_that_cannot_be_trusted_no_token_is_known(tmp_path, caplog, spoil):
    tokens = Tokens(tmp_path)
    made = tokens.create("laptop")
    good = tokens.path.read_bytes()
    spoil(tokens.path)
    for _ in range(3):
        assert Tokens(tmp_path).name_of(made) is None
    assert tokens.name_of(made) is None
    assert tokens.name_of(made) is None
    assert caplog.text.count("no token is known") == 4  # once for each reader
    tokens.path.unlink()
    tokens.path.write_bytes(good)
    tokens.path.chmod(0o600)
    assert tokens.name_of(made) == "laptop"


def test_the_commands_create_list_and_revoke(tmp_path, headway, monkeypatch):
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    assert "no tokens" in headway("token", "list").out
    printed = headway("token", "create", "desk").out.strip()
    assert Tokens(tmp_path / "data").name_of(printed) == "desk"
    file = tmp_path / "laptop.token"
    ran = headway("token", "create", "laptop", "--file", file)
    assert ran.code == 0
    assert file.read_text().strip() not in ran.out
    assert file.stat().st_mode & 0o777 == 0o600
    listed = json.loads(headway("token", "list", "--json").out)
    assert [token["name"] for token in listed] == ["desk", "laptop"]
    assert "laptop" in headway("token", "list").out
    again = headway("token", "create", "third", "--file", file)
    assert again.code == 2
    assert "third" not in headway("token", "list").out
    taken = tmp_path / "taken"
    assert headway("token", "create", "laptop", "--file", taken).code == 2
    assert not taken.exists()
    assert headway("token", "revoke", "desk").code == 0
    assert Tokens(tmp_path / "data").name_of(printed) is None
