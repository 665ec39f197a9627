"""The Django app of tasks, submissions, evaluations and leaderboards.

Does NOT cover the judging itself: that is `benchmarks.harness`, which works without Django.
"""

from django.apps import AppConfig


class BenchmarksConfig(AppConfig):
    name = "benchmarks"
    default_auto_field = "django.db.models.BigAutoField"
