"""The ASGI application that uvicorn serves: pages, static files and the event stream.

Does NOT start workers: that is `manage.py up`.
"""

import gc
import os
from importlib import import_module

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
django_application = get_asgi_application()

from .body_limit import BodyLimit  # noqa: E402 - its answers need a Django that is set up

import_module(settings.ROOT_URLCONF)  # all views, or the first request would wait for them
gc.collect()
gc.freeze()  # what is here stays, and looking through it again now and then would cost some request 0.1 s
gc.set_threshold(10_000, 10, 100)  # what requests leave behind is young; looking at everything costs one 20 to 110 ms
application = BodyLimit(django_application, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
