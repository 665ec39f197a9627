"""The ASGI application that uvicorn serves: pages, static files and the event stream.

Does NOT start workers: that is `manage.py up`.
"""

import gc
import os
import sys
from importlib import import_module
from itertools import count
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.signals import request_finished

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
django_application = get_asgi_application()

from .body_limit import BodyLimit  # noqa: E402 - its answers need a Django that is set up

ANSWERED = count(1)
OLD_EVERY = 500  # what several requests at once have kept from being found young


def collect(**_: Any) -> None:
    """Between two requests, since one leaves up to 20,000 objects that refer to each other: 8 ms once it is answered.

    Looked for within a later request, together with all that has grown old, they made one in twenty wait 0.1 s.
    """
    gc.collect(1 if next(ANSWERED) % OLD_EVERY else 2)


import_module(settings.ROOT_URLCONF)  # all views, or the first request would wait for them
gc.collect()
gc.freeze()  # what is here stays, and looking through it again now and then would cost some request 0.1 s
gc.set_threshold(200_000, 50, 1000)  # hardly ever within a request
request_finished.connect(collect)
sys.setswitchinterval(0.001)  # a busy thread lets the event loop on sooner than after 5 ms, several times a request
application = BodyLimit(django_application, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
