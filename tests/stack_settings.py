"""Settings of a whole running stack under test: the site's own with a fake judge and quick clocks.

Does NOT replace anything else: real Redis, real workers, real database.
"""

from kbench_site.settings import *  # noqa: F403

KBENCH_JUDGE = "tests.fakes.FakeJudge"
KBENCH_HEARTBEAT_S = 1.0
KBENCH_HOUSEKEEPING_S = 2.0  # each time six jobs, 10 ms of a processor each
