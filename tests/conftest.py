"""One thread of linear algebra a process: tests already run one process a core.

numpy reads this once, when it is first imported, so it must be said before any test is.

Laws are tried on the same random cases every time, so that a test says the same of the same
code; HEADWAY_LAWS=new tries others.
"""

import gc
import os
import signal
import sys

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
settings.register_profile("same", derandomize=True)
if os.environ.get("HEADWAY_LAWS") != "new":
    settings.load_profile("same")

pytest_plugins = ["app_fixtures", "serving"]  # imported once the above is set


def pytest_collection_finish():
    """Modules and tests stay: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Run `untraced` tests at full speed: coverage makes a simulation three times as slow.

    pytest-cov's `no_cover` does not do in a worker of xdist: a second measurement goes on there.
    """
    if item.get_closest_marker("untraced") is None:
        return (yield)
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(trace)
