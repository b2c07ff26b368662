"""One thread of linear algebra a process: tests already run one process a core.

numpy reads this once, when it is first imported, so it must be said before any test is.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
