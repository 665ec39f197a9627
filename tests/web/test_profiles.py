"""The page of a profile and its API: who may ask, what is shown, and that hostile names stay text."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks import services
from benchmarks.accounts.exports import files_of
from benchmarks.judgings import profiles
from benchmarks.models import Evaluation, ProfileRequest, RecordedEntry
from benchmarks.recorded import profiles as recorded_profiles
from benchmarks.recorded.bundles import sha256_of
from benchmarks.recorded.loading import load_bundle
from benchmarks.views.parts.rooflines import roofline_chart, roofline_figure
from tests import profiled
from tests.recorded import SOURCE as RECORDED_SOURCE
from tests.recorded import bundle_file

from . import factories
from .test_api import API, Program, refused

pytestmark = pytest.mark.django_db


def made(evaluation: Evaluation, mark: str = "") -> ProfileRequest:
    services.profile_request(evaluation, None)
    holding = profiles.profile_claim(evaluation.device_kind.slug)
    assert holding is not None
    assert holding.record(profiled.profile(mark))
    return ProfileRequest.objects.get(evaluation=evaluation)


def page(client: Client, evaluation: Evaluation) -> str:
    return client.get(reverse("evaluation-profile", args=[evaluation.code])).content.decode()


def ask(client: Client, evaluation: Evaluation) -> Any:
    return client.post(reverse("evaluation-profile-ask", args=[evaluation.code]))


def test_a_profile_is_asked_for_on_its_page_and_followed_there(visitor: Client) -> None:
    evaluation = factories.judged_on_gpu()
    assert "Profile it" in page(visitor, evaluation)
    assert (
        reverse("evaluation-profile", args=[evaluation.code])
        in visitor.get(evaluation.get_absolute_url()).content.decode()
    )
    response = ask(visitor, evaluation)
    assert response["Location"] == reverse("evaluation-profile", args=[evaluation.code])
    assert "It is waiting for a worker" in page(visitor, evaluation)
    live = reverse("evaluation-profile-live", args=[evaluation.code])
    assert visitor.get(live, {"state": "queued"}).status_code == 204
    made_now = profiles.profile_claim(evaluation.device_kind.slug)
    assert made_now is not None
    assert "It is being profiled" in visitor.get(live, {"state": "queued"}).content.decode()


def test_the_page_shows_bottleneck_figures_lines_and_listings(visitor: Client) -> None:
    evaluation = factories.judged_on_gpu()
    made(evaluation)
    html = page(visitor, evaluation)
    assert "<strong>Arithmetic</strong>: the multiprocessors are busy 72 % of the time" in html
    assert "Achieved occupancy (%)" in html
    assert "24.1" in html
    assert "33,554,432" in html
    assert "waits for global or local memory" in html
    assert '<a href="#L5">line' in html
    assert ".target sm_90a" in html
    assert "SASS, cut" in html
    assert html.count('<circle class="dot') == 2
    assert reverse("evaluation-profile-figure", args=[evaluation.code]) in html


def test_why_there_is_none_is_said(visitor: Client) -> None:
    evaluation = factories.judged_on_gpu()
    ask(visitor, evaluation)
    holding = profiles.profile_claim(evaluation.device_kind.slug)
    assert holding is not None
    holding.fail("it launches no kernel")
    html = page(visitor, evaluation)
    assert "it launches no kernel" in html
    assert "Profile it again" in html


def test_of_what_is_not_public_only_the_author_asks(visitor: Client) -> None:
    owner = factories.user("olga")
    evaluation = factories.judged_on_gpu(owner=owner, visibility="unlisted")
    assert "Profile it" not in page(visitor, evaluation)
    ask(visitor, evaluation)
    assert not ProfileRequest.objects.exists()
    visitor.force_login(owner)
    ask(visitor, evaluation)
    assert ProfileRequest.objects.get().payer.account == owner


def test_the_quota_of_who_asks_is_asked(visitor: Client, settings: Any) -> None:
    settings.KBENCH_JUDGING_S_PER_DAY = settings.KBENCH_IN_FLIGHT_MAX = 4  # a visitor has a quarter of them
    first, second = factories.judged_on_gpu(), factories.judged_on_gpu(text="// another\n")
    ask(visitor, first)
    response = visitor.post(reverse("evaluation-profile-ask", args=[second.code]), follow=True)
    assert "which is the limit" in response.content.decode()
    assert ProfileRequest.objects.count() == 1


def test_the_figure_and_the_download_are_those_of_the_profile(visitor: Client) -> None:
    evaluation = factories.judged_on_gpu()
    missing = visitor.get(reverse("evaluation-profile-json", args=[evaluation.code]))
    assert missing.status_code == 404
    made(evaluation)
    response = visitor.get(reverse("evaluation-profile-json", args=[evaluation.code]))
    assert "attachment" in response["Content-Disposition"]
    assert json.loads(response.content)["text"].startswith("Profile on nvidia-h200")
    drawn = visitor.get(reverse("evaluation-profile-figure", args=[evaluation.code])).json()
    assert [trace["name"] for trace in drawn["data"]] == ["Ceilings of the device", "batch_size=1024", "batch_size=16"]
    assert drawn["layout"]["xaxis"]["type"] == "log"


def test_names_of_kernels_stay_text(visitor: Client) -> None:
    evaluation = factories.judged_on_gpu()
    made(evaluation, "<script>alert(1)</script>\x00")
    html = page(visitor, evaluation)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "\x00" not in html


def test_the_export_of_an_account_holds_its_profiles() -> None:
    owner = factories.user("olga")
    evaluation = factories.judged_on_gpu(owner=owner)
    name = f"submissions/{evaluation.submission.code}/evaluations/{evaluation.code}-profile.json"
    assert name not in dict(files_of(owner))
    made(evaluation)
    assert json.loads(dict(files_of(owner))[name])["device_kind"] == "nvidia-h200"


def test_a_roofline_without_times_or_ceilings_is_not_drawn() -> None:
    plain = profiled.profile().to_json()
    assert roofline_chart(plain) is not None
    for key in ("flops_per_s", "peak_bytes_per_s", "intensity"):
        other = json.loads(json.dumps(plain))
        for config in other["configs"]:
            config["roofline"][key] = None
        assert roofline_chart(other) is None
        assert roofline_figure(other) is None


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A recorded entry, and a file with the profile of its source."""
    load_bundle(bundle_file(tmp_path / "bundle.jsonl"))
    profile = profiled.profile(device_kind="nvidia-b200", source_sha256=sha256_of(RECORDED_SOURCE)).to_json()
    (tmp_path / "b200.jsonl.gz").write_bytes(gzip.compress(json.dumps(profile).encode()))
    monkeypatch.setattr(recorded_profiles, "FOLDER", tmp_path)
    return RecordedEntry.objects.get()


def test_a_recorded_entry_shows_its_profile(visitor: Client, recorded: Any) -> None:
    path = reverse("recorded-profile", args=[recorded.bundle.name, recorded.name])
    assert path in visitor.get(recorded.get_absolute_url()).content.decode()
    html = visitor.get(path).content.decode()
    assert "<strong>Recorded</strong>" in html
    assert "<strong>Arithmetic</strong>" in html
    assert visitor.get(f"{path}figure.json").json()["data"]
    assert visitor.get(f"{path}profile.json").json()["device_kind"] == "nvidia-b200"
    assert "This profile was made on" not in html


def test_a_profile_of_another_device_says_so(visitor: Client, recorded: Any) -> None:
    recorded.bundle.device = "nvidia-h200"
    recorded.bundle.save()
    html = visitor.get(reverse("recorded-profile", args=[recorded.bundle.name, recorded.name])).content.decode()
    assert "This profile was made on NVIDIA H200" in html


def test_a_recorded_entry_without_a_profile_offers_none(visitor: Client, tmp_path: Path) -> None:
    load_bundle(bundle_file(tmp_path / "bundle.jsonl"))
    row = RecordedEntry.objects.get()
    path = reverse("recorded-profile", args=[row.bundle.name, row.name])
    assert path not in visitor.get(row.get_absolute_url()).content.decode()
    assert visitor.get(path).status_code == 404


def test_the_api_asks_for_profiles_and_gives_them(visitor: Client) -> None:
    owner = factories.user("olga")
    evaluation = factories.judged_on_gpu(owner=owner)
    path = f"/evaluations/{evaluation.code}/profile"
    refused(visitor.get(API + path), 404, "not-profiled")
    program = Program(owner)
    posted = program.post(path)
    assert (posted.status_code, posted["Location"], posted.json()["state"]) == (202, API + path, "queued")
    holding = profiles.profile_claim(evaluation.device_kind.slug)
    assert holding is not None
    assert holding.record(profiled.profile())
    found = visitor.get(API + path).json()
    assert found["state"] == "done"
    assert found["text"] == found["profile"]["text"]
    assert found["profile"]["configs"][0]["kernels"][0]["metrics"]["registers"] == 96


def test_a_source_that_did_not_compile_is_offered_no_profile(visitor: Client) -> None:
    failed = factories.judged(factories.failing())
    text = visitor.get(failed.get_absolute_url()).content.decode()
    assert reverse("evaluation-profile", args=[failed.code]) not in text


def test_the_api_refuses_what_cannot_be_profiled(visitor: Client) -> None:
    owner, stranger = factories.user("olga"), factories.user("stefan")
    failed = factories.judged(factories.failing(), owner=owner)
    refused(Program(owner).post(f"/evaluations/{failed.code}/profile"), 409, "cannot-be-profiled")
    unlisted = factories.judged_on_gpu(owner=owner, visibility="unlisted")
    refused(Program(stranger).post(f"/evaluations/{unlisted.code}/profile"), 403, "not-yours")
