"""The admin pages of agent runs: staff can read runs, candidates and events. They control a run on its own page.

Does NOT offer any change: the log is the record.
"""

from django.contrib import admin

from benchmarks.admin import ReadOnlyAdmin

from .models import Candidate, Run, RunEvent


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("code", "task_version", "proposer", "owner", "state", "reason", "judged_count", "created")
    list_filter = ("state", "proposer")
    list_select_related = ("task_version__task", "owner")


admin.site.register([Candidate, RunEvent], ReadOnlyAdmin)
