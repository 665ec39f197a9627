"""The worker's unit with the real judge: the sandbox works in it, the self-test passes, a kernel gets its verdict.

Named so that it runs last: it takes the fake judge of the other tests away.
"""

import pytest

from .installed import InstalledSite

pytestmark = [pytest.mark.deployment, pytest.mark.sandbox]
JUDGE = (
    "from benchmarks_worker w join benchmarks_devicekind k on k.id = w.device_kind_id where w.name like 'judge.cpu@%'"
)


def test_the_worker_judges_in_its_sandbox(site: InstalledSite) -> None:
    site.judge_for_real()

    columns = "w.state, w.isolation, w.isolation_strong, w.test_passed"

    def is_proven() -> bool:
        return site.sql(f"select {columns} {JUDGE}") == "online|bubblewrap|t|t"

    site.wait(is_proven, 600, "the self-test did not pass")
    kind = site.sql(f"select k.slug {JUDGE}")
    found = site.ended(site.submit("// judged for real", device=kind, quick=True))
    assert (found["verdict"], found["device"]) == ("PASS", kind)
