"""The ASGI application that uvicorn serves: pages, static files and the event stream.

Does NOT start workers: that is `manage.py up`.
"""

import os

from django.conf import settings
from django.core.asgi import get_asgi_application

from .body_limit import BodyLimit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
application = BodyLimit(get_asgi_application(), settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
