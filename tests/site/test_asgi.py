"""What the web process does before it serves. Not covered: requests, which the other tests of the site send."""

import subprocess
import sys

from tests.stack import ROOT

SAYS = """
import gc, sys, kbench_site.asgi
print("benchmarks.views.home" in sys.modules, "anthropic" in sys.modules, gc.get_freeze_count())
"""


def test_all_views_but_no_client_of_language_models_are_there_and_left_alone_by_the_collector(tmp_path, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
    monkeypatch.setenv("KBENCH_DATA_DIR", str(tmp_path))
    said = subprocess.run([sys.executable, "-c", SAYS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    views, language_models, frozen = said.split()
    assert (views, language_models) == ("True", "False")
    assert int(frozen) > 50_000


LEAVES = """
import gc, weakref, kbench_site.asgi
from django.core.signals import request_finished
class Thing: pass
thing = Thing()
thing.itself, seen = thing, weakref.ref(thing)
del thing
print(seen() is not None)
request_finished.send(None)
print(seen() is None)
"""


def test_what_a_request_leaves_is_collected_once_it_is_answered(tmp_path, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
    monkeypatch.setenv("KBENCH_DATA_DIR", str(tmp_path))
    said = subprocess.run([sys.executable, "-c", LEAVES], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "True"]
