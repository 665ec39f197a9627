"""The Django app of agent runs: what is searched, what came of it, who watches.

Does NOT cover the search itself: that is `agents.evolve`, which works without Django.
"""

from importlib import import_module

from django.apps import AppConfig

from benchmarks import costs


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import_module("agents.feed")  # event streams of runs
        import_module("agents.metrics")
        import_module("benchmarks.exports").register("agents", import_module("agents.exports").files_of)
        import_module("benchmarks.ownership").farewells.append(import_module("agents.services").runs_stop)
        costs.register("agents", import_module("agents.costs").spent_by_method)
