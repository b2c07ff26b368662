"""The Docker platform against an engine of processes: its own ways, quickly."""

import pytest
from containers import DockerHands

from contract import BackendContract
from fake_engine import FakeEngine


class TestDocker(BackendContract):
    @pytest.fixture(params=["shared", "apart"])
    def platform(self, request, tmp_path):
        hidden = str(tmp_path) if request.param == "apart" else ""
        engines = [FakeEngine(tmp_path / n, hidden=hidden) for n in "ab"]
        made = DockerHands(tmp_path, engines)
        yield made
        made.close()
        assert made.left_on_platform() == []
        for each in engines:
            each.close()
