"""The Django app of agent runs: searches for faster kernels, their results, and their live pages.

Does NOT cover the search itself: that is `agents.evolve`, which works without Django.
"""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from benchmarks.extensions import register

        from .extension import RUNS  # its modules import the tables, which exist from now on

        register("agents", RUNS)
