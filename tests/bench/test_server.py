"""The benchmark of the server, small: its figures exist, and nothing that was accepted is lost."""

from headway.bench.server import bench_server


def test_a_small_load_is_stored_and_measured(monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    found = bench_server(rate=20, seconds=1, history=50, reports=200, single=20, jobs=2)
    figures = {f.name: f for f in found}
    assert figures["acknowledged submissions that are not stored"].value == 0
    assert figures["50 jobs in history: CPU of what ps does after its imports"].plain()["pass"]
    assert figures["acknowledged reports that are not stored"].value == 0
    assert figures["reports that were refused"].value == 0
    assert all(f.value >= 0 for f in figures.values())
    assert len(figures) == 15
