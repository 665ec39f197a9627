"""Staff withhold a candidate or hide a run: no address tells its words to others, until it is undone."""

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import caches
from django.test import Client

from agents import moderation, services
from agents.driving.evaluator import submitted
from agents.evolve.budget import Caps
from agents.evolve.memory import PastKernel, RunMemory
from agents.extension import data
from agents.extension.exports import files_of
from agents.models import Candidate, Run, RunSource
from agents.record.feed import RunLog, may_follow
from agents.record.withheld import KEPT_COLUMNS
from benchmarks.accounts import ownership
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, ModerationAction, Standing, Submission
from benchmarks.moderation import decisions
from benchmarks.requests import asking
from benchmarks.services import Refused
from benchmarks.states import ActionKind, Moderation, Origin, Visibility
from tests.asking import opened, version_of
from tests.rows import cpu_kind
from tests.security.expected import OPERATIONS
from tests.security.routes import PLACEHOLDER, routes
from tests.web import factories as judgings

from . import factories

pytestmark = pytest.mark.django_db
CANARY = "yellow-bird-7f3a9c"
SOURCE = f"// {CANARY}\n{judgings.SOURCE}"


@pytest.fixture(autouse=True)
def nothing_kept(tasks: None) -> Iterator[None]:
    caches["pages"].clear()
    yield
    caches["pages"].clear()


class Scenery:
    """A run whose best candidate says CANARY wherever it can, a child that quotes it, and the fork of a stranger."""

    def __init__(self) -> None:
        self.owner, self.stranger = judgings.user("olga"), judgings.user("stefan")
        self.staff = judgings.user("sam")
        self.staff.is_staff = True
        self.staff.save()
        self.evaluation = judgings.judged(owner=self.owner, title=CANARY, text=SOURCE)
        self.run = factories.driven(factories.started(self.owner))
        self.row = self.run.candidates.get(key=self.run.best_key)
        self._spoil()
        parent = Run.objects.get(pk=self.run.pk)
        self.fork = services.run_fork(parent, owner=self.stranger, seed=3, more=Caps(judgings=6))

    def _spoil(self) -> None:
        sha256 = hashlib.sha256(SOURCE.encode()).hexdigest()
        RunSource.objects.create(sha256=sha256, text=SOURCE)
        configs = [{**item, "failure": CANARY, "note": CANARY} for item in self.row.configs]
        words = dict.fromkeys(("name", "thought", "prompt", "text", "hint", "operator", "arm", "template"), CANARY)
        words |= {"params": {"GENE": CANARY}, "probabilities": {CANARY: 1.0}, "source_sha256": sha256, "odd": CANARY}
        result = {"reason": CANARY, "log_tail": CANARY, "configs": configs, "resources": {CANARY: 1}}
        for event in self.run.events.filter(candidate=self.row.key):
            event.payload |= words if event.type.startswith("proposal.") else {}
            if event.type == "verdict":
                event.payload |= {"fault": CANARY, "reasons": [{"text": CANARY, "line": 1}]}
            if event.type == "evaluation.submitted":
                event.payload["ticket"] = str(self.evaluation.code)
            if event.type == "evaluation.finished":
                event.payload["result"] |= result
            event.save()
        for field in Candidate._meta.concrete_fields:
            if field.name not in KEPT_COLUMNS:
                empty = field.get_default()
                setattr(self.row, field.attname, CANARY if isinstance(empty, str) else {CANARY: CANARY})
        self.row.source_sha256, self.row.ticket, self.row.configs = sha256, str(self.evaluation.code), configs
        self.row.probabilities = {CANARY: 1.0}
        self.row.save()
        self.row.opinions.update(fault=CANARY, reasons=[{"text": CANARY, "line": 1}])
        self.child = self.run.candidates.exclude(pk=self.row.pk).exclude(source_sha256="").order_by("-position")[0]
        self.run.candidates.filter(pk=self.child.pk).update(parents=[self.row.key])
        said = self.run.events.get(candidate=self.child.key, type="proposal.received")
        said.payload |= {"prompt": f"Make this faster: {SOURCE}", "parents": [self.row.key]}
        said.save()

    def addresses(self) -> list[str]:
        """Every address of site and API that is read, with everything of this scenery that it can name."""
        operations = [name.partition(" ")[2] for name in OPERATIONS if name.startswith("GET ")]
        api = [name.replace("{", "<").replace("}", ">") for name in operations]
        found = [path for route in [*(f"/{route}" for route in routes()), *api] for path in self._filled(route)]
        runs = [item.get_absolute_url() for item in (self.run, self.fork)]
        past = [f"{base}?at={seq}" for base in runs for seq in (self.run.last_seq - 1, self.fork.last_seq - 1)]
        logs = [f"{base}log/?candidate={self.row.key}" for base in runs]
        more = [f"{runs[0]}candidates/{self.child.key}/?parent={self.row.key}", f"/runs/compare/?a={self.run.code}"]
        return [*found, *past, *logs, *more, f"/runs/verifiers/?run={self.run.code}"]

    def _filled(self, route: str) -> list[str]:
        words = {"suite": ["robust-kbench"], "op": ["mnist_linear_relu"], "direction": ["forward"]}
        words |= {"device": [self.evaluation.device_kind.slug], "name": ["olga"], "key": [self.row.key, self.child.key]}
        codes = [self.run.code, self.fork.code]
        if "runs/" not in route:
            codes = [self.evaluation.submission.code if "submissions/" in route else self.evaluation.code]
        words |= {"code": codes, "id": codes}
        names = [found[1] for found in PLACEHOLDER.finditer(route)]
        if not set(names) <= set(words):
            return []
        choices = itertools.product(*(words[name] for name in names))
        return [self._with(route, [str(item) for item in choice]) for choice in choices]

    @staticmethod
    def _with(route: str, values: list[str]) -> str:
        rest = iter(values)
        return PLACEHOLDER.sub(lambda _: next(rest), route)

    def telling(self, reader: Any) -> set[str]:
        """What tells CANARY to this reader: addresses, streams, the archive of their account."""
        caches["pages"].clear()
        client = Client(raise_request_exception=False)
        if reader is not None:
            client.force_login(reader)
        found = {path for path in self.addresses() if self._tells(client, path)}
        for run in (self.run, self.fork):
            found |= {f"stream {run}" for _, data in RunLog().read([run.topic], 0).events if CANARY.encode() in data}
        if reader is not None:
            found |= {name for name, data in files_of(reader) if CANARY.encode() in data}
        return found

    @staticmethod
    def _tells(client: Client, path: str) -> bool:
        response = client.get(path)
        assert response.status_code != 500, path
        return not getattr(response, "is_async", False) and CANARY.encode() in response.getvalue()


@pytest.fixture
def scenery() -> Scenery:
    return Scenery()


def test_the_words_of_a_withheld_candidate_are_told_nowhere(scenery: Scenery) -> None:
    before = scenery.telling(None)
    run, key = scenery.run.get_absolute_url(), scenery.row.key
    expected = {
        f"{run}log.jsonl",
        f"{run}candidates/{key}/",
        f"{run}candidates/{scenery.child.key}/",
        f"{run}log/?candidate={key}",
    }
    expected |= {f"/api/v1/runs/{scenery.run.code}/events", f"/api/v1/runs/{scenery.fork.code}/candidates/{key}"}
    expected |= {f"/evaluations/{scenery.evaluation.code}/", f"stream {scenery.run}", "/api/v1/export"}
    assert expected <= before
    moderation.withhold(scenery.row, by=scenery.staff, reason="Somebody's secret.")
    assert scenery.telling(None) == set()
    assert scenery.telling(scenery.stranger) == set(), "the fork is the stranger's, its words are not"
    assert {f"{run}log.jsonl", f"{run}candidates/{key}/"} <= scenery.telling(scenery.owner)
    assert {f"{run}log.jsonl", f"{run}candidates/{key}/"} <= scenery.telling(scenery.staff)
    moderation.show(Candidate.objects.get(pk=scenery.row.pk), by=scenery.staff, reason="It was not.")
    assert scenery.telling(None) == before


def test_a_withheld_candidate_keeps_its_place_outcome_and_cost(scenery: Scenery, client: Client) -> None:
    moderation.withhold(scenery.row, by=scenery.staff, reason="Somebody's secret.")
    code, row = scenery.run.code, scenery.row
    told = client.get(f"/api/v1/runs/{code}/candidates/{row.key}").json()
    assert (told["id"], told["parents"], told["verdict"], told["score"]) == (
        row.key,
        row.parents,
        row.verdict,
        row.score,
    )
    assert (told["name"], told["reason"], told["feedback"]) == ("", None, None)
    assert [item["speedup"] for item in told["configs"]] == [item["speedup"] for item in row.configs] != []
    assert {item["failure"] + item["note"] for item in told["configs"]} == {""}
    events = client.get(f"/api/v1/runs/{code}/events?limit=500").json()["events"]
    costs = [item["payload"]["cost"] for item in events if item["type"] == "budget.settled"]
    assert costs == [item.payload["cost"] for item in scenery.run.events.filter(type="budget.settled")]
    scenery.row.refresh_from_db()
    assert scenery.row.withheld
    assert Evaluation.objects.get(code=row.ticket).submission.moderation == Moderation.HIDDEN


def test_a_hidden_run_is_for_its_owner_and_staff(scenery: Scenery) -> None:
    base = f"/runs/{scenery.run.code}/"
    Run.objects.filter(pk=scenery.fork.pk).update(forked_from=None)  # it names where it comes from
    paths = [path for path in scenery.addresses() if str(scenery.run.code) in path and "moderate" not in path]
    shown = {path for path in paths if Client().get(path).status_code == 200}
    assert {base, f"{base}log.jsonl", f"{base}live/", f"/api/v1/runs/{scenery.run.code}/events"} <= shown
    moderation.hide_run(scenery.run, by=scenery.staff, reason="Advertising.")
    for reader, opens in ((None, False), (scenery.stranger, False), (scenery.owner, True), (scenery.staff, True)):
        client = Client()
        if reader is not None:
            client.force_login(reader)
        pages = {path for path in shown if path.startswith(base) and not path.endswith(".png")}
        assert {path for path in pages if client.get(path).status_code == 200} == (pages if opens else set())
        assert str(scenery.run.code) not in client.get("/runs/").content.decode()
    pictures = [Client().get(f"/runs/{code}/preview.png").content for code in (scenery.run.code, uuid4())]
    assert pictures[0] == pictures[1], "a hidden run has the picture of one that does not exist"
    assert not may_follow(scenery.stranger, str(scenery.run.code))
    assert RunLog().read([scenery.run.topic], 0).events == []
    assert str(scenery.run.code) not in Client().get("/api/v1/runs").content.decode()
    assert Client().get(f"/api/v1/runs/{scenery.run.code}").status_code == 404
    moderation.show_run(scenery.run, by=scenery.staff, reason="A mistake.")
    assert {path for path in paths if Client().get(path).status_code == 200} == shown


@pytest.mark.parametrize("first", ["withheld", "submitted"])
def test_what_is_withheld_is_not_submitted_in_public(scenery: Scenery, first: str) -> None:
    """Neither where it is sent to the judge afterwards, nor where the log does not yet say that it was."""
    run, row = scenery.run, scenery.child
    if first == "withheld":
        moderation.withhold(row, by=scenery.staff, reason="Somebody's secret.")
    code = submitted(run, row.key, f"{SOURCE}// {first}\n", "cpp")
    if first == "submitted":
        assert Client().get(f"/evaluations/{code}/").status_code == 200
        moderation.withhold(row, by=scenery.staff, reason="Somebody's secret.")
    assert Client().get(f"/evaluations/{code}/").status_code == 404
    moderation.show(row, by=scenery.staff, reason="It was not.")
    assert Client().get(f"/evaluations/{code}/").status_code == 200


def test_what_is_submitted_again_of_a_withheld_candidate_leaves_its_board(scenery: Scenery) -> None:
    """A worker that was interrupted sends it once more, after staff have restored the submission alone."""
    run, row = scenery.run, scenery.child
    code = submitted(run, row.key, f"{SOURCE}// again\n", "cpp")
    holding = judgings.claimed_for_judging()
    assert str(holding.evaluation.code) == code
    moves.record_report(holding, judgings.passing(9.0))
    moderation.withhold(row, by=scenery.staff, reason="Somebody's secret.")
    submission = Submission.objects.get(evaluations__code=code)
    decisions.decide(submission, ActionKind.RESTORE, by=scenery.staff, reason="It was not.")
    assert Standing.objects.get(evaluation__code=code).rank == 1
    assert submitted(run, row.key, f"{SOURCE}// again\n", "cpp") == code
    assert not Standing.objects.filter(evaluation__code=code).exists()


@pytest.mark.parametrize("how", ["private", "account deleted"])
def test_what_is_private_takes_its_duplicates_along_and_stays_unread_when_its_owner_leaves(
    scenery: Scenery, how: str
) -> None:
    """A duplicate was never submitted, so nothing else than its text says whose it is."""
    twin = {"source_sha256": scenery.row.source_sha256, "ticket": "", "reused_from": "", "withheld": False}
    Candidate.objects.filter(key=scenery.child.key).update(**twin)
    pages = {f"{run.get_absolute_url()}candidates/{scenery.child.key}/" for run in (scenery.run, scenery.fork)}
    assert pages <= scenery.telling(None)
    Submission.objects.filter(pk=scenery.evaluation.submission_id).update(origin=Origin.AGENT)
    ownership.visibility_change(scenery.evaluation.submission, Visibility.PRIVATE)
    assert pages <= scenery.telling(scenery.owner)
    if how == "account deleted":
        ownership.account_delete(scenery.owner, keep_submissions=True)
    for reader in (None, scenery.stranger):  # the table of verifiers adds up words of ours
        assert {path for path in scenery.telling(reader) if not path.startswith("/runs/verifiers/")} == set()


@pytest.mark.parametrize("how", ["private", "withheld"])
def test_a_run_is_forked_by_those_who_may_read_all_of_it(scenery: Scenery, how: str) -> None:
    """What a fork proposes may repeat what it began with, and its owner may read that."""
    if how == "private":
        ownership.visibility_change(scenery.evaluation.submission, Visibility.PRIVATE)
    else:
        moderation.withhold(scenery.row, by=scenery.staff, reason="Somebody's secret.")
    for run in (scenery.run, scenery.fork):
        for reader in (None, judgings.user(f"other{run.pk}")):
            with pytest.raises(Refused, match="private or withheld"):
                services.run_fork(run, owner=reader, seed=4, more=Caps(judgings=6))
    assert services.run_fork(scenery.run, owner=scenery.owner, seed=4, more=Caps(judgings=6)).forked_from == scenery.run


def test_nobody_forks_a_run_that_staff_have_hidden(scenery: Scenery) -> None:
    """Its forks show all its words. Those from before are on the page on which staff hide it."""
    moderation.hide_run(scenery.run, by=scenery.staff, reason="Insults.")
    for reader in (scenery.owner, scenery.staff):
        with pytest.raises(Refused, match="hidden"):
            services.run_fork(scenery.run, owner=reader, seed=4, more=Caps(judgings=6))
    client = Client()
    client.force_login(scenery.staff)
    shown = client.get(f"/runs/{scenery.run.code}/moderate/").content.decode()
    assert f"/runs/{scenery.fork.code}/moderate/" in shown


@pytest.mark.parametrize("how", ["private", "hidden", "deleted"])
def test_prompts_that_quote_a_kernel_go_with_it(tasks: None, how: str) -> None:
    """A run was told of somebody's kernel; it is in the prompts, whatever becomes of the submission later."""
    olga, stefan, staff = (judgings.user(name) for name in ("olga", "stefan", "sam"))
    evaluation = judgings.judged(owner=olga, text=SOURCE)
    kernel = PastKernel("layernorm/forward", "cpu", 2.0, ("loop",), evaluation.submission.blob_id, str(evaluation.code))
    run = factories.driven(factories.started(stefan, options={"memory": RunMemory(kernels=(kernel,)).to_json()}))
    said = run.events.filter(type="proposal.received").order_by("-seq")[0]
    said.payload |= {"prompt": f"A kernel of a related task: {SOURCE}", "parents": []}
    said.save()
    log = f"/runs/{run.code}/log.jsonl"
    assert CANARY in Client().get(log).content.decode()
    if how == "private":
        ownership.visibility_change(evaluation.submission, Visibility.PRIVATE)
    elif how == "hidden":
        decisions.decide(evaluation.submission, ActionKind.HIDE, by=staff, reason="It was copied.")
    else:
        ownership.submission_delete(evaluation.submission)
    assert CANARY not in Client().get(log).content.decode()
    with pytest.raises(Refused, match="private or withheld"):
        services.run_fork(run, owner=stefan, seed=4, more=Caps(judgings=6))


@pytest.mark.parametrize("failed", [True, False])
@pytest.mark.parametrize("how", ["private", "hidden"])
def test_prompts_that_quote_a_candidate_which_is_no_parent_go_with_it(tasks: None, how: str, failed: bool) -> None:
    """What failed last is told with its log, and of several kernels that are shown an edit names one as its parent."""
    olga, staff = judgings.user("olga"), judgings.user("sam")
    run = factories.driven(factories.started(olga))
    quoted = run.candidates.exclude(ticket="").filter(score__isnull=failed)[0]
    evaluation = judgings.queued(owner=olga, text=SOURCE)
    run.candidates.filter(pk=quoted.pk).update(ticket=str(evaluation.code))
    said = run.events.filter(type="proposal.received").exclude(candidate=quoted.key).order_by("-seq")[0]
    said.payload |= {"prompt": f"Make this faster: {CANARY}", "parents": []}
    said.save()
    paths = [f"/runs/{run.code}/log.jsonl", f"/runs/{run.code}/candidates/{said.candidate}/"]
    assert all(CANARY in Client().get(path).content.decode() for path in paths)
    if how == "private":
        ownership.visibility_change(evaluation.submission, Visibility.PRIVATE)
    else:
        decisions.decide(evaluation.submission, ActionKind.HIDE, by=staff, reason="It was copied.")
    assert not any(CANARY in Client().get(path).content.decode() for path in paths)


def test_prompts_of_a_run_on_a_hidden_request_go_with_its_words(tasks: None) -> None:
    """And come back with them. Its candidates are in no table of the data set meanwhile."""
    staff = judgings.user("sam")
    staff.is_staff = True
    staff.save()
    request = opened(judgings.user("olga"), title=f"A layer for {CANARY}")
    wanted = services.RunRequest(version_of(request), cpu_kind(), factories.config(), judgings.user("stefan"))
    run = factories.driven(services.run_start(wanted))
    said = run.events.filter(type="proposal.received").order_by("-seq")[0]
    said.payload |= {"prompt": f"The task is: A layer for {CANARY}", "parents": []}
    said.save()
    log, reader = f"/runs/{run.code}/log.jsonl", Client()
    assert CANARY in reader.get(log).content.decode()
    assert list(data.CANDIDATES.source.read())
    asking.request_decide(request, ActionKind.HIDE, by=staff, reason="Advertising.")
    assert CANARY not in reader.get(log).content.decode()
    assert not list(data.CANDIDATES.source.read())
    reader.force_login(staff)
    assert CANARY in reader.get(log).content.decode()
    request.refresh_from_db()
    asking.request_decide(request, ActionKind.RESTORE, by=staff, reason="It was none.")
    assert CANARY in Client().get(log).content.decode()


def test_decisions_are_public_have_a_reason_and_are_made_once(scenery: Scenery) -> None:
    client = Client()
    client.force_login(scenery.staff)
    page = f"/runs/{scenery.run.code}/moderate/"
    assert client.post(page, {"reason": ""}).status_code == 200
    assert not Run.objects.get(pk=scenery.run.pk).hidden
    of_candidate = f"{page}?candidate={scenery.row.key}"
    for path, words in (
        (page, {"reason": "Advertising.", "note": "told by mail"}),
        (of_candidate, {"reason": "A secret."}),
    ):
        offered = {**client.get(path).context["form"].initial, **words}
        assert client.post(path, offered).status_code == 302
        assert "already" in client.post(path, offered).content.decode()  # the button pressed twice
    with pytest.raises(Refused, match="already withheld"):
        moderation.withhold(scenery.row, by=scenery.staff, reason="A secret.")
    with pytest.raises(Refused, match="already hidden"):
        moderation.hide_run(scenery.run, by=scenery.staff, reason="Advertising.")
    log = Client().get("/moderation/log/").content.decode()
    assert all(words in log for words in ("Advertising.", "A secret.", f"run {scenery.run.code}"))
    assert "told by mail" not in log
    assert CANARY not in log
    assert ModerationAction.objects.filter(public_reason="A secret.").count() == 2, "the candidate, its submission"
