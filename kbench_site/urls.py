"""The addresses of the parts of the site. Pages are in `benchmarks/urls.py`.

Does NOT name any page itself except the event stream and the admin.
"""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path

from agents.api import router as runs_api
from agents.api.candidates import router as candidates_api
from benchmarks.api import api
from benchmarks.views.streams import event_stream

api.add_router("/runs", candidates_api)  # before /runs/{id}/{wish}
api.add_router("/runs", runs_api)
urlpatterns = [
    path("admin/login/", secure_admin_login(admin.site.login)),  # one page to log in, with its limits
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("events/", event_stream, name="events"),
    path("runs/", include("agents.urls")),
    path("", include("benchmarks.urls")),
]
