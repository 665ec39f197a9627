"""The ASGI application that uvicorn serves: pages, static files and the event stream.

Does NOT start workers: that is `manage.py up`.
"""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
application = get_asgi_application()
