"""The benchmark of the server, small: its figures exist, and nothing that was accepted is lost."""

from headway.bench.server import bench_server


def test_a_small_load_is_stored_and_measured(monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    figures = {f.name: f for f in bench_server(rate=20, seconds=1, history=50)}
    assert figures["acknowledged submissions that are not stored"].value == 0
    assert figures["50 jobs in history: CPU of what ps does after its imports"].plain()["pass"]
    assert all(f.value >= 0 for f in figures.values())
    assert len(figures) == 6
