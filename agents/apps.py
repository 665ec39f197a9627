"""The Django app of agent runs: what is searched, what came of it, who watches.

Does NOT cover the search itself: that is `agents.evolve`, which works without Django.
"""

from functools import partial
from importlib import import_module

from django.apps import AppConfig

from benchmarks.boards import costs


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import_module("agents.record.feed")  # event streams of runs
        import_module("agents.extension.metrics")
        import_module("benchmarks.accounts.exports").register(
            "agents", import_module("agents.extension.exports").files_of
        )
        runs_stop = import_module("agents.services").runs_stop
        import_module("benchmarks.accounts.ownership").farewells.append(runs_stop)
        import_module("benchmarks.moderation.decisions").ON_BAN.append(
            partial(runs_stop, who="staff, with the account")
        )
        import_module("benchmarks.querysets").EXPECTING.append(import_module("agents.selectors").is_about_to_want)
        costs.register("agents", import_module("agents.extension.costs").spent_by_method)
