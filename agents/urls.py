"""The addresses of the pages of runs. The API's are in `agents/api/`."""

from django.urls import path

from .views import ablations, candidates, comparisons, logs, moderation, previews, runs

urlpatterns = [
    path("", runs.run_list, name="runs"),
    path("new/", runs.run_new, name="run-new"),
    path("compare/", comparisons.compare, name="run-compare"),
    path("compare/figure.json", comparisons.compare_figure, name="run-compare-figure"),
    path("ablations/", ablations.ablations, name="run-ablations"),
    path("verifiers/", comparisons.verifiers, name="run-verifiers"),
    path("<uuid:code>/", runs.run_detail, name="run"),
    path("<uuid:code>/live/", runs.run_live, name="run-live"),
    path("<uuid:code>/figure.json", runs.run_figure, name="run-figure"),
    path("<uuid:code>/preview.png", previews.run_picture, name="run-picture"),
    path("<uuid:code>/pause/", runs.run_steer, {"wish": "pause"}, name="run-pause"),
    path("<uuid:code>/resume/", runs.run_steer, {"wish": "resume"}, name="run-resume"),
    path("<uuid:code>/stop/", runs.run_steer, {"wish": "stop"}, name="run-stop"),
    path("<uuid:code>/fork/", runs.run_fork, name="run-fork"),
    path("<uuid:code>/candidates/", candidates.candidate_list, name="run-candidates"),
    path("<uuid:code>/candidates/<slug:key>/", candidates.candidate_detail, name="run-candidate"),
    path("<uuid:code>/moderate/", moderation.moderate, name="run-moderate"),
    path("<uuid:code>/log/", logs.log, name="run-log"),
    path("<uuid:code>/log.jsonl", logs.log_file, name="run-log-file"),
]
