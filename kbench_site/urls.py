"""The addresses of the parts of the site. Pages are in `benchmarks/urls.py`.

Does NOT name any page itself except the event stream and the admin.
"""

from django.contrib import admin
from django.urls import include, path

from agents.api import router as runs_api
from agents.api.candidates import router as candidates_api
from benchmarks.api import api
from benchmarks.views.accounts import admin_entry
from benchmarks.views.streams import event_stream

api.add_router("/runs", candidates_api)  # before /runs/{id}/{wish}
api.add_router("/runs", runs_api)
urlpatterns = [
    path("admin/login/", admin_entry),  # there is one page to log in, with its limits and its second factor
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("events/", event_stream, name="events"),
    path("runs/", include("agents.urls")),
    path("", include("benchmarks.urls")),
]
