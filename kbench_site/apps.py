"""Makes the Celery application the current one in every Django process, so that any of them can wake a worker.

Does NOT import Celery without Django: the `kbench` command judges files without either.
"""

from importlib import import_module

from django.apps import AppConfig


class KbenchSiteConfig(AppConfig):
    name = "kbench_site"

    def ready(self) -> None:
        import_module("kbench_site.celery")
