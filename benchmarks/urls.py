"""The addresses of the pages. The API and the event stream are wired in `kbench_site/urls.py`."""

from allauth.account import views as allauth
from allauth.socialaccount.providers.github import views as github
from allauth.socialaccount.providers.openid_connect import views as openid
from django.urls import URLPattern, URLResolver, include, path

from .views import (
    accounts,
    attacks,
    badges,
    beside,
    changes,
    checks,
    comments,
    compare,
    contests,
    dataset,
    evaluations,
    feeds,
    health,
    home,
    imports,
    leaderboards,
    methods,
    moderation,
    news,
    notifications,
    people,
    previews,
    profiles,
    recorded,
    rejudge,
    requests,
    rules,
    status,
    submissions,
    submit,
    tasks,
    teams,
    tokens,
)

task_urls = [
    path("", tasks.task_list, name="tasks"),
    path("<slug:suite>/<slug:op>/<slug:direction>/", tasks.task_detail, name="task"),
    path("<slug:suite>/<slug:op>/<slug:direction>/preview.png", previews.task_picture, name="task-picture"),
    path("<slug:suite>/<slug:op>/<slug:direction>/starter/", tasks.task_starter, name="task-starter"),
    path("<slug:suite>/<slug:op>/<slug:direction>/submit/", submit.submit, name="submit"),
]

evaluation_urls = [
    path("<uuid:code>/", evaluations.evaluation_detail, name="evaluation"),
    path("<uuid:code>/live/", evaluations.evaluation_live, name="evaluation-live"),
    path("<uuid:code>/beside/", beside.evaluation_beside, name="evaluation-beside"),
    path("<uuid:code>/cancel/", evaluations.evaluation_stop, name="evaluation-cancel"),
    path("<uuid:code>/audit/", evaluations.evaluation_audit, name="evaluation-audit"),
    path("<uuid:code>/comments/", comments.comment_new, name="comment-new"),
    path("<uuid:code>/full/", evaluations.evaluation_full, name="evaluation-full"),
    path("<uuid:code>/profile/", profiles.profile_detail, name="evaluation-profile"),
    path("<uuid:code>/profile/live/", profiles.profile_live, name="evaluation-profile-live"),
    path("<uuid:code>/profile/ask/", profiles.profile_ask, name="evaluation-profile-ask"),
    path("<uuid:code>/profile/figure.json", profiles.profile_figure, name="evaluation-profile-figure"),
    path("<uuid:code>/profile/profile.json", profiles.profile_json, name="evaluation-profile-json"),
    path("<uuid:code>/report.json", evaluations.evaluation_report, name="evaluation-report"),
    path("<uuid:code>/source/", evaluations.evaluation_source, name="evaluation-source"),
    path("<uuid:code>/badge.svg", badges.evaluation_badge, name="evaluation-badge"),
    path("<uuid:code>/preview.png", previews.evaluation_picture, name="evaluation-picture"),
]

check_urls = [
    path("<uuid:code>/", checks.check_detail, name="emulator-check"),
    path("<uuid:code>/live/", checks.check_live, name="emulator-check-live"),
]

comment_urls = [
    path("<int:pk>/delete/", comments.comment_end, name="comment-end"),
    path("<int:pk>/report/", comments.comment_report, name="comment-report"),
]

submission_urls = [
    path("diff/", submissions.submission_diff, name="submission-diff"),
    path("<uuid:code>/", submissions.submission_edit, name="submission-edit"),
    path("<uuid:code>/delete/", submissions.submission_end, name="submission-end"),
]

leaderboard_urls = [
    path("", leaderboards.leaderboard_list, name="leaderboards"),
    path("records.rss", feeds.RecordFeed(), name="record-feed"),
    path("<slug:suite>/", leaderboards.overall_board, name="overall-board"),
    path("<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/", leaderboards.leaderboard, name="leaderboard"),
    path(
        "<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/figure.json",
        leaderboards.leaderboard_figure,
        name="leaderboard-figure",
    ),
    path(
        "<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/preview.png",
        previews.board_picture,
        name="leaderboard-picture",
    ),
]

method_urls = [
    path("", methods.method_list, name="methods"),
    path("<slug:slug>/", methods.method_detail, name="method"),
]

account_urls: list[URLPattern | URLResolver] = [
    path("submissions/", accounts.own_submissions, name="own-submissions"),
    path("quota/", accounts.quota, name="quota"),
    path("data/", accounts.own_data, name="own-data"),
    path("data/archive.zip", accounts.own_archive, name="own-archive"),
    path("notifications/", notifications.notifications, name="notifications"),
    path("notifications/settings/", notifications.notification_settings, name="notification-settings"),
    path("teams/", teams.own_teams, name="teams"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<int:pk>/revoke/", tokens.token_end, name="token-end"),
    path("email/", accounts.with_mail(allauth.email), name="account_email"),
    path("password/reset/", accounts.with_mail(allauth.password_reset), name="account_reset_password"),
    path("", include("allauth.account.urls")),
    path("2fa/", include("allauth.mfa.urls")),
    path("connections/", include("allauth.socialaccount.urls")),
    path("github/login/", accounts.with_provider(github.oauth2_login), name="github_login"),
    path("github/login/callback/", accounts.with_provider(github.oauth2_callback), name="github_callback"),
    path("oidc/<slug:provider_id>/login/", accounts.with_provider(openid.login), name="openid_connect_login"),
    path(
        "oidc/<slug:provider_id>/login/callback/",
        accounts.with_provider(openid.callback),
        name="openid_connect_callback",
    ),
]

moderation_urls = [
    path("", moderation.queue, name="moderation"),
    path("log/", moderation.log, name="moderation-log"),
    path("report/<uuid:code>/", moderation.report, name="report-submission"),
    path("submissions/<uuid:code>/", moderation.submission, name="moderate"),
    path("comments/<int:pk>/", comments.comment_moderate, name="moderate-comment"),
    path("requests/<int:pk>/", requests.request_moderate, name="moderate-request"),
    path("contest-entries/<int:pk>/", contests.contest_entry, name="moderate-entry"),
    path("accounts/<str:name>/", moderation.account, name="moderate-account"),
    path("switches/", moderation.switches, name="switches"),
    path("rejudge/", rejudge.rejudge, name="rejudge"),
    path("rejudge/<uuid:code>/", rejudge.batch, name="rejudge-batch"),
    path("rejudge/<uuid:code>/live/", rejudge.batch_live, name="rejudge-live"),
    *(
        path(f"rejudge/<uuid:code>/{turn}/", rejudge.batch_turn, {"turn": turn}, name=f"rejudge-{turn}")
        for turn in rejudge.TURNS
    ),
]

recorded_urls = [
    path("", recorded.recorded_list, name="recorded"),
    path("<slug:bundle>/", recorded.recorded_bundle, name="recorded-bundle"),
    path("<slug:bundle>/entries/<slug:entry>/", recorded.recorded_entry, name="recorded-entry"),
    path("<slug:bundle>/entries/<slug:entry>/profile/", profiles.recorded_profile, name="recorded-profile"),
    path(
        "<slug:bundle>/entries/<slug:entry>/profile/figure.json",
        profiles.recorded_figure,
        name="recorded-profile-figure",
    ),
    path(
        "<slug:bundle>/entries/<slug:entry>/profile/profile.json", profiles.recorded_json, name="recorded-profile-json"
    ),
    path("<slug:bundle>/entries/<slug:entry>/preview.png", previews.recorded_picture, name="recorded-picture"),
    path("<slug:bundle>/<slug:suite>/<slug:op>/<slug:direction>/", recorded.recorded_board, name="recorded-board"),
]

contest_urls = [
    path("", contests.contest_list, name="contests"),
    path("new/", contests.contest_edit, name="contest-new"),
    path("<slug:slug>/", contests.contest_detail, name="contest"),
    path("<slug:slug>/edit/", contests.contest_edit, name="contest-edit"),
    path("<slug:slug>/join/", contests.contest_join, name="contest-join"),
    path("<slug:slug>/announce/", contests.contest_announce, name="contest-announce"),
    path("<slug:slug>/cancel/", contests.contest_cancel, name="contest-cancel"),
]

team_urls = [
    path("<str:name>/", teams.team_detail, name="team"),
    path("<str:name>/invite/", teams.team_invite, name="team-invite"),
    path("<str:name>/answer/", teams.team_answer, name="team-answer"),
    path("<str:name>/members/<str:account>/", teams.team_member, name="team-member"),
    path("<str:name>/leave/", teams.team_leave, name="team-leave"),
    path("<str:name>/delete/", teams.team_end, name="team-end"),
]

request_urls = [
    path("", requests.request_list, name="requests"),
    path("new/", requests.request_new, name="request-new"),
    path("newest.rss", feeds.RequestFeed(), name="request-feed"),
    path("<int:pk>/", requests.request_detail, name="request"),
    path("<int:pk>/vote/", requests.request_vote, name="request-vote"),
    path("<int:pk>/accept/", requests.request_accept, name="request-accept"),
    path("<int:pk>/close/", requests.request_close, name="request-close"),
]

news_urls = [
    path("", news.news_list, name="news"),
    path("new/", news.news_edit, name="news-new"),
    path("newest.atom", feeds.NewsFeed(), name="news-feed"),
    path("<int:pk>/", news.news_post, name="news-post"),
    path("<int:pk>/edit/", news.news_edit, name="news-edit"),
]

change_urls = [
    path("", changes.change_list, name="changes"),
    path("<uuid:code>/", changes.change, name="change"),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("live/", home.home_live, name="home-live"),
    path("tasks/", include(task_urls)),
    path("checks/", include(check_urls)),
    path("evaluations/", include(evaluation_urls)),
    path("comments/", include(comment_urls)),
    path("submissions/", include(submission_urls)),
    path("leaderboards/", include(leaderboard_urls)),
    path("badges/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>.svg", badges.board_badge, name="board-badge"),
    path("recorded/", include(recorded_urls)),
    path("methods/", include(method_urls)),
    path("teams/", include(team_urls)),
    path("people/<str:name>/", people.person, name="person"),
    path("compare/", compare.compare, name="compare"),
    path("compare/figure.json", compare.compare_figure, name="compare-figure"),
    path("data/", dataset.data_page, name="data"),
    path("data/<slug:table>.parquet", dataset.data_file, name="data-file"),
    path("suites/<slug:suite>/imports/", imports.suite_imports, name="suite-imports"),
    path("rules/", rules.rules, name="rules"),
    path("rules/attacks/", attacks.attacks, name="attacks"),
    path("rules/<slug:name>/", rules.rules, name="rule-set"),
    path("moderation/", include(moderation_urls)),
    path("contests/", include(contest_urls)),
    path("requests/", include(request_urls)),
    path("news/", include(news_urls)),
    path("changes/", include(change_urls)),
    path("status/", status.status, name="status"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("accounts/", include(account_urls)),
]
