"""The addresses of the pages. The API and the event stream are wired in `kbench_site/urls.py`."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from .views import accounts, evaluations, home, leaderboards, rules, status, submit, tasks, tokens

task_urls = [
    path("", tasks.task_list, name="tasks"),
    path("<slug:suite>/<slug:op>/<slug:direction>/", tasks.task_detail, name="task"),
    path("<slug:suite>/<slug:op>/<slug:direction>/starter/", tasks.task_starter, name="task-starter"),
    path("<slug:suite>/<slug:op>/<slug:direction>/submit/", submit.submit, name="submit"),
]

evaluation_urls = [
    path("<uuid:code>/", evaluations.evaluation_detail, name="evaluation"),
    path("<uuid:code>/live/", evaluations.evaluation_live, name="evaluation-live"),
    path("<uuid:code>/cancel/", evaluations.evaluation_stop, name="evaluation-cancel"),
    path("<uuid:code>/audit/", evaluations.evaluation_audit, name="evaluation-audit"),
    path("<uuid:code>/report.json", evaluations.evaluation_report, name="evaluation-report"),
    path("<uuid:code>/source/", evaluations.evaluation_source, name="evaluation-source"),
]

leaderboard_urls = [
    path("", leaderboards.leaderboard_list, name="leaderboards"),
    path("<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/", leaderboards.leaderboard, name="leaderboard"),
]

account_urls = [
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("signup/", accounts.sign_up, name="signup"),
    path("submissions/", accounts.own_submissions, name="own-submissions"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<int:pk>/revoke/", tokens.token_end, name="token-end"),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("live/", home.home_live, name="home-live"),
    path("tasks/", include(task_urls)),
    path("evaluations/", include(evaluation_urls)),
    path("leaderboards/", include(leaderboard_urls)),
    path("rules/", rules.rules, name="rules"),
    path("status/", status.status, name="status"),
    path("accounts/", include(account_urls)),
]
