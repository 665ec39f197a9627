"""Settings of a whole running stack under test: the site's own with a fake judge and quick clocks.

Does NOT replace anything else: real Redis, real workers, real database.
"""

from kbench_site.settings import *  # noqa: F403

KBENCH_JUDGE = "tests.fakes.FakeJudge"
KBENCH_HEARTBEAT_S = 0.5
KBENCH_HOUSEKEEPING_S = 1.0
