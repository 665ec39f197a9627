"""What an unscrupulous contestant tries, alone or with several accounts: each was a finding of an attack once.

Not covered: what it costs while boards are held (`test_held_boards.py`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards import settled, standings
from benchmarks.boards.selectors import board_records
from benchmarks.harness import Flag, Verdict
from benchmarks.harness.compilers.identity import _module_key
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, Standing, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, EvaluationReason, Visibility

from . import factories
from .test_bounds import enter, found, key, replayed
from .test_connected import compiled, private, wrong
from .test_timing_revisions import SAME, by, hidden, on

KERNEL = "import triton\n\n\n@triton.jit\ndef kernel(x):\n    pass\n\n\ndef forward(x):\n    return x\n"
SABOTAGED = KERNEL.replace(
    "def kernel(x)", "def kernel\\\n(x)"
)  # the same syntax; triton.jit cannot find `def kernel(`


def test_another_layout_of_an_honest_python_text_puts_nobody_under_review(tmp_path: Path) -> None:
    """triton.jit and torch.jit.script read layout and comments."""
    assert _module_key(KERNEL, tmp_path) != _module_key(SABOTAGED, tmp_path)

    def of(name: str, report: Any, text: str) -> None:
        options = {"owner": factories.user(name), "text": text, "language": "triton"}
        item = factories.judged_on_gpu(report, **options)
        compiled(item, _module_key(text, tmp_path))

    of("honest", replayed(2.0), KERNEL)
    of("eve", factories.failing(verdict=Verdict.RUNTIME_ERROR, reason="raises"), SABOTAGED)
    row = by("honest")
    assert not row.under_review, row.review_reason


def test_a_sleeping_copy_of_another_account_does_not_outlive_an_invalidation(staff: User) -> None:
    sleeping = private("second", replayed(9.0), SAME)
    cheat = enter("cheat", replayed(9.0), SAME)
    decisions.decide(cheat.submission, ActionKind.INVALIDATE, by=staff, reason="cheats")
    ownership.visibility_change(sleeping.submission, Visibility.PUBLIC)
    row = by("second")
    assert row.under_review, (row.rank, row.score)


def test_a_judging_of_the_site_does_not_end_because_its_author_deletes_a_spare_copy() -> None:
    for name in ("spare0", "spare1", "spare2"):
        enter(name, found(3.0, 2.9, 3.1, "bounded"), SAME)
    factories.worker(device=factories.GPU)
    assert services.leaders_audit() == 1
    holding = factories.claimed_for_judging(factories.GPU)
    with pytest.raises(services.Refused, match="The site itself is judging"):
        ownership.submission_delete(Submission.objects.get(pk=holding.evaluation.submission_id))
    moves.record_report(holding, wrong())
    refused = Evaluation.objects.filter(reason=EvaluationReason.SITE_AUDIT, verdict=Verdict.INCORRECT_VALUE)
    row = Standing.objects.first()
    assert row is None or row.under_review or refused.exists(), (row.rank, row.score)


def test_a_confirmed_leader_has_its_record(staff: User) -> None:
    from dataclasses import replace

    enter("honest", replayed(1.5))
    gated = enter("fast", replace(replayed(12.0), gates=(Flag("gate-speedup", "faster"),)), SAME)
    decisions.decide(gated.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert by("fast").rank == 1
    assert [record.score for record in board_records(key())] == [1.5, 12.0]


def test_a_confirmation_settles_no_other_layout_of_a_python_text(staff: User, tmp_path: Path) -> None:
    """A module that reads its own line numbers is another program when a line is added; staff have seen one of them."""
    false = "import sys\n\n\ndef forward(x):\n    return evil(x) if sys._getframe().f_lineno == 5 else good(x)\n"
    good = "\n" + false

    def of(owner: str, text: str, report: Any) -> Evaluation:
        person = User.objects.filter(username=owner).first() or factories.user(owner)
        item = factories.judged_on_gpu(report, owner=person, text=text, language="triton")
        return compiled(item, _module_key(text, tmp_path))

    of("cheat", false, replayed(9.0))
    of("cheat", false, wrong())
    honest = of("second", good, replayed(8.5))
    assert by("cheat").under_review
    decisions.decide(honest.submission, ActionKind.CONFIRM, by=staff, reason="looked at its text")
    assert by("cheat").under_review


GATED = (Flag("gate-speedup", "faster than usual"),)


@pytest.mark.parametrize("how", ["confirmed", "refused and confirmed", "audited"])
def test_whoever_owns_a_confirmed_copy_cannot_take_the_confirmation_from_others(staff: User, how: str) -> None:
    """A confirmation and an audit are rows of one submission, which its owner deletes; the questions are remembered."""
    from dataclasses import replace

    slow = found(12.0, 11.9, 12.1, "bounded")
    reports = {"confirmed": replace(replayed(9.0), gates=GATED), "audited": replace(slow, gates=GATED)}
    report = reports.get(how, replayed(2.0))
    copy = enter("eve", report if how in reports else wrong(), SAME)
    enter("honest", report, SAME)
    assert by("honest").under_review
    if how == "audited":
        services.audit_request(copy, by_staff=True)
        audit = replace(found(12.0, 11.9, 12.1, "audited"), gates=GATED)
        moves.record_report(factories.claimed_for_judging(factories.GPU), audit)
    else:
        decisions.decide(copy.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not by("honest").under_review
    ownership.submission_delete(Submission.objects.get(pk=copy.submission_id))
    assert not by("honest").under_review, by("honest").review_reason
    ownership.account_delete(User.objects.get(username="eve"), keep_submissions=False)
    assert not by("honest").under_review, by("honest").review_reason


def test_submitting_and_cancelling_fills_no_table_without_bound(owner: Any, settings: Any) -> None:
    """A place in the queue is free again once it is cancelled, and each keeps a text of up to 256 KiB."""
    from benchmarks import quotas

    settings.KBENCH_PUBLIC_PER_DAY, settings.KBENCH_IN_FLIGHT_MAX = 20, 10
    payer = quotas.payer_of(owner, "")
    for number in range(20):
        evaluation = factories.queued(owner=owner, payer=payer, text=f"// {number}\n{factories.SOURCE}")
        moves.evaluation_cancel(evaluation, "by its author", by_author=True)
    with pytest.raises(quotas.OverQuota, match="cancelled 20 of your submissions"):
        factories.queued(owner=owner, payer=payer, text="// one more\n")


def test_an_account_owns_no_more_teams_than_it_may() -> None:
    from benchmarks import teams
    from benchmarks.states import TeamRole

    maker, keeper = factories.user("maker"), factories.user("keeper")
    for number in range(teams.OWNED_MAX + 2):
        try:
            team = teams.team_create(f"squat{number}", by=maker)
            teams.invite(team, keeper, by=maker)
            teams.answer(team.memberships.get(account=keeper), accept=True)
            teams.role_set(team, keeper, TeamRole.OWNER, by=maker)
            teams.leave(team, maker)
        except services.Refused:
            break
    assert len(teams.teams_of(keeper, owned=True)) <= teams.OWNED_MAX


def test_the_number_under_review_is_not_cut_off(visitor: Any) -> None:
    factories.many_entries(60)
    Standing.objects.update(under_review=True, review_reason="held", rank=None)
    standings.boards_marked([factories.version().pk])
    path = "/".join(factories.TASK)
    answer = visitor.get(f"/api/v1/leaderboards?task={path}&device=cpu").json()
    assert answer["under_review"] == 60


def test_a_table_of_a_board_says_what_is_contested(visitor: Any) -> None:
    enter("honest", on(replayed(2.0), "2.11"), SAME)
    hidden("eve", on(replayed(1.2), "2.11"))
    path, device = "/".join(factories.TASK), factories.gpu_kind().slug
    url = f"/api/v1/leaderboards?task={path}&device={device}"
    assert visitor.get(url).json()["entries"][0]["contested"]
    assert "contested" in visitor.get(url + "&format=csv").content.decode().splitlines()[0]


def test_a_strangers_gate_puts_no_entry_under_review() -> None:
    """Just below a gate: whoever judges a copy often enough finds one judging just above it."""
    from dataclasses import replace

    enter("honest", replayed(9.95), SAME)
    hidden("eve", replace(replayed(10.05), gates=GATED))
    row = by("honest")
    assert not row.under_review, row.review_reason


def test_a_strangers_gate_takes_no_record() -> None:
    from dataclasses import replace

    enter("honest", replayed(9.95), SAME)
    hidden("eve", replace(replayed(10.05), gates=GATED))
    assert [record.score for record in board_records(key())] == [9.95]


def test_a_bounded_entry_below_the_first_places_does_not_stay_contested() -> None:
    """The site's own judging of it is not audited there, so it never answers a stranger's audited one."""
    for number in range(4):
        enter(f"top{number}", on(replayed(5.0 + number), "2.11"))
    enter("honest", on(found(2.0, 1.9, 2.1, "bounded"), "2.11"), SAME)
    hidden("eve", on(found(1.2, 1.1, 1.25, "audited"), "2.11"))
    assert by("honest").is_contested
    factories.worker(device=factories.GPU)
    for _ in range(3):
        if services.leaders_rejudge():
            holding = factories.claimed_for_judging(factories.GPU)
            report = on(found(2.0, 1.9, 2.1, "bounded"), "2.11")
            if standings.wants_audit(holding.evaluation, report):
                report = on(found(2.0, 1.9, 2.1, "audited"), "2.11")
            moves.record_report(holding, report)
        Evaluation.objects.update(queued=timezone.now() - timedelta(days=8))
    assert not by("honest").is_contested


def test_a_judging_of_somebody_else_that_counts_for_nothing_has_no_gate_either() -> None:
    """Its 12× is left out of the score, as the entry's own judging refutes it, but its gate holds the entry."""
    from dataclasses import replace

    enter("honest", on(replayed(2.0), "2.11"), SAME)
    hidden("eve", replace(on(replayed(12.0), "2.11"), gates=GATED))
    row = by("honest")
    assert row.score == pytest.approx(2.0)
    assert not row.under_review, row.review_reason


def test_an_audit_that_its_owner_keeps_in_the_queue_does_not_stop_staff() -> None:
    entry = enter("cheat", found(3.0, 2.9, 3.1, "bounded"), SAME)
    services.audit_request(entry, by_staff=False)
    services.audit_request(entry, by_staff=True)


def test_an_offer_pays_once_for_one_compiled_program() -> None:
    """User guide: the same program is paid for only once; a renamed variable compiles to the same."""
    from benchmarks import quotas
    from benchmarks.models import LedgerEntry
    from benchmarks.states import LedgerKind
    from tests.asking import opened, version_of

    request, answerer = opened(factories.user("asks"), worth_s=1000), factories.user("answers")
    payer = quotas.payer_of(answerer, "")
    for name in ("x", "y", "z"):
        text = f"static int {name};\n{factories.SOURCE}"
        factories.queued(version=version_of(request), text=text, owner=answerer, payer=payer)
        holding = factories.claimed_for_judging()
        moves.evaluation_compiled(holding, 1.0, "o" * 64)
        moves.record_report(holding, factories.passing())
    assert LedgerEntry.objects.filter(kind=LedgerKind.GRANT).count() == 1


@pytest.mark.parametrize("how", ["gate", "layout"])
def test_a_rival_takes_nobody_out_of_the_final_result(tmp_path: Path, how: str) -> None:
    """By one private judging of a rival's public text, or of that in another layout; what is frozen stays."""
    from dataclasses import replace

    from benchmarks.contests import running
    from benchmarks.models import Contest, ContestEntry

    from . import contests

    honest, eve = factories.user("honest"), factories.user("eve")
    contest = contests.running_with(honest, eve, hidden={contests.TASK: {"cpu": [{"batch_size": 4861}]}})
    text = KERNEL if how == "layout" else factories.SOURCE

    def of(owner: Any, text: str, report: Any, **options: Any) -> None:
        language = "python" if how == "layout" else "cpp"
        evaluation = factories.judged(report, owner=owner, text=text, language=language, **options)
        compiled(evaluation, _module_key(text, tmp_path) if how == "layout" else "o" * 64)

    of(honest, text, factories.passing(9.9))
    if how == "gate":
        of(eve, text, replace(factories.passing(10.1), gates=GATED), visibility=Visibility.PRIVATE)
    else:
        of(eve, SABOTAGED, wrong(Verdict.RUNTIME_ERROR), visibility=Visibility.PRIVATE)
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    while Evaluation.objects.queued().exists():
        moves.record_report(factories.claimed_for_judging(), factories.passing(9.9))
    running.advance()
    entry = ContestEntry.objects.get(participant__account=honest)
    assert entry.score == pytest.approx(9.9), (entry.verdict, entry.score)


def test_the_feed_of_records_names_no_contested_entry(visitor: Any) -> None:
    """User guide: a contested entry holds no record; the history of records leaves it out, the feed does not."""
    enter("cheat", on(replayed(9.0), "2.11"), SAME)
    hidden("other", on(replayed(1.2), "2.11"))
    assert by("cheat").is_contested
    assert board_records(key()) == []
    assert "by cheat" not in visitor.get("/leaderboards/records.rss").content.decode()


def test_deleting_an_account_reads_each_judging_a_few_times() -> None:
    """Of n judgings of one text, each reads all n: the time grows with n², and all its boards are held."""
    for _ in range(20):
        enter("many", replayed(2.0), SAME)
    with CaptureQueriesContext(connection) as queries:
        ownership.account_delete(User.objects.get(username="many"), keep_submissions=False)
    with_method = [query["sql"] for query in queries if 'INNER JOIN "benchmarks_method"' in query["sql"]]
    programs = [sql for sql in with_method if "report" not in sql]
    assert len(programs) < 20, f"{len(programs)} reads of judgings with their methods"


def test_a_page_reads_a_program_once_however_many_records_it_has_made() -> None:
    """Of one owner and one code, each a little faster; one did not compile, so each is asked about."""
    enter("one", factories.failing(), "// bad\nint x;")
    for number in range(12):
        enter("one", replayed(1.5 + number / 200), f"// {number}\nint x;")
    standings.boards_marked([factories.version().pk])
    with CaptureQueriesContext(connection) as queries:
        records = board_records(key())
    assert len(records) > 9
    assert len(queries) < 60, f"{len(queries)} queries for {len(records)} records"


def test_what_is_settled_of_one_text_is_worked_out_once_for_all_its_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of n holders, each has to do with n judgings, and all are written while the board is held."""
    made = []

    class Counted(settled.SameCode):
        def __init__(self, *args: Any, **on_task: Any) -> None:
            made.append(self)
            super().__init__(*args, **on_task)

    for name in range(8):
        last = enter(f"holder{name}", replayed(2.0), SAME)
    monkeypatch.setattr(settled, "SameCode", Counted)
    standings.review_renew([last])
    assert len(made) == 1
    assert Standing.objects.count() == 8


def test_an_account_that_goes_leaves_one_row_of_a_board() -> None:
    """Each submission of nobody is a holder of its own: whoever copies them gives the account that left five ranks."""
    for number in range(5):
        enter("left", replayed(5.0 - number), f"// {number}\nint x{number};")
    enter("honest", replayed(0.9), "// honest\n")
    assert by("honest").rank == 2
    ownership.account_delete(User.objects.get(username="left"), keep_submissions=True)
    for number in range(5):
        options = {"text": f"// {number}\nint x{number};", "visibility": Visibility.PRIVATE}
        owner = User.objects.filter(username="again").first() or factories.user("again")
        factories.judged_on_gpu(replayed(5.0 - number), owner=owner, **options)
    assert by("honest").rank == 2


def test_judgings_of_an_account_that_has_gone_stay_those_of_one_person() -> None:
    """By tokens, as while there was an account: else whoever leaves keeps the luckiest of several."""
    enter("left", replayed(2.0), "// one\nint x;")
    enter("left", replayed(3.0), "// two\nint x;")
    before = Standing.objects.get().score
    ownership.account_delete(User.objects.get(username="left"), keep_submissions=True)
    standings.board_renew(list(Evaluation.objects.select_related("submission__method", "task_version__task")))
    row = Standing.objects.get()
    assert (row.score, row.judgings) == (before, 2)
