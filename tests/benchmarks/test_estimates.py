"""Estimates of waiting times against a simulated queue, and what is said where none is possible."""

import heapq
import random
from datetime import UTC, datetime, timedelta
from statistics import fmean, median

import pytest

from benchmarks.judgings.estimates import (
    AtWork,
    Demand,
    NoEstimate,
    Pace,
    QueueLoad,
    Took,
    WaitEstimate,
    estimated,
    spoken,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TYPICAL_S = {1: 8.0, 2: 20.0, 3: 60.0, 4: 150.0}
BUILD_S = 6.0


class Site:
    """A site with tasks of very different lengths, whose judgings scatter by a third, and one queue."""

    def __init__(self, seed, judges, *, turns):
        self.draws, self.judges, self.turns = random.Random(seed), judges, turns

    def judging(self, task):
        return self.draws.lognormvariate(0, 0.35) * TYPICAL_S[task]

    def build(self):
        return self.draws.lognormvariate(0, 0.2) * BUILD_S

    def pace(self, count):
        tasks = self.draws.choices(list(TYPICAL_S), k=count)
        return Pace([Took(task, self.build(), self.judging(task)) for task in tasks], builds_take_turns=self.turns)

    def moment(self, ahead):
        """A queue of `ahead` rows before one's own while every judge is busy, and how long the wait really is."""
        running, free = [], []
        for _ in range(self.judges):
            task = self.draws.choice(list(TYPICAL_S))
            whole = self.judging(task)
            elapsed = self.draws.uniform(0, whole)
            running.append(AtWork(task, NOW - timedelta(seconds=elapsed)))
            free.append(whole - elapsed)
        tasks = self.draws.choices(list(TYPICAL_S), k=ahead)
        heapq.heapify(free)
        for task in tasks:
            heapq.heappush(free, heapq.heappop(free) + self.judging(task) + (self.build() if self.turns else 0))
        own_build = self.build()
        truth = free[0] + own_build if self.turns else max(free[0], own_build)
        loads = [QueueLoad(task, tasks.count(task), tasks.count(task)) for task in set(tasks)]
        return Demand(self.judges, running, loads, QueueLoad(1, 1, 1)), truth


def outcomes(seed, judges, ahead, rounds=40):
    """Of many moments: which waits ended inside their range, and how far its middle was off, relative to the wait."""
    site = Site(seed, judges, turns=judges == 1)
    pace = site.pace(200)
    for _ in range(rounds):
        demand, truth = site.moment(ahead)
        found = estimated(pace, demand, NOW)
        yield found.low_s <= truth <= found.high_s, abs((found.low_s + found.high_s) / 2 - truth) / truth


@pytest.mark.parametrize(("ahead", "error"), [(3, 0.33), (10, 0.22), (40, 0.12), (400, 0.08)])
@pytest.mark.parametrize("judges", [1, 4])
def test_most_waits_end_inside_the_range_and_its_middle_is_near(ahead, error, judges):
    inside, off = zip(*(pair for seed in range(4) for pair in outcomes(seed, judges, ahead)), strict=True)
    assert fmean(inside) >= 0.65
    assert median(off) <= error


def known(seconds, task=1, count=5):
    return Pace([Took(task, BUILD_S, seconds)] * count, builds_take_turns=True)


def test_too_few_judgings_give_no_estimate():
    with pytest.raises(NoEstimate, match="Fewer than 3"):
        estimated(known(10.0, count=2), Demand(1, [], [], QueueLoad(1, 1, 1)), NOW)


def test_no_judge_gives_no_estimate():
    with pytest.raises(NoEstimate, match="No worker"):
        estimated(known(10.0), Demand(0, [], [], QueueLoad(1, 1, 1)), NOW)


def test_an_idle_judge_waits_for_the_build_alone():
    assert estimated(known(10.0), Demand(1, [], [], QueueLoad(1, 1, 1)), NOW) == WaitEstimate(BUILD_S, BUILD_S)
    assert estimated(known(10.0), Demand(1, [], [], QueueLoad(1, 1, 0)), NOW) == WaitEstimate(0.0, 0.0)


def test_what_runs_longer_than_any_before_counts_for_nothing_more():
    running = [AtWork(1, NOW - timedelta(seconds=500))]
    assert estimated(known(10.0), Demand(1, running, [], QueueLoad(1, 1, 0)), NOW).high_s == 0


def test_on_a_gpu_builds_go_on_beside_judgings():
    pace = Pace([Took(1, 30.0, 10.0)] * 5, builds_take_turns=False)
    assert estimated(pace, Demand(1, [], [QueueLoad(1, 5, 5)], QueueLoad(1, 1, 1)), NOW).low_s == 50.0
    assert estimated(pace, Demand(1, [], [QueueLoad(1, 1, 1)], QueueLoad(1, 1, 1)), NOW).low_s == 30.0


def test_a_task_without_judgings_of_its_own_takes_what_all_take():
    pace = known(10.0)
    assert estimated(pace, Demand(1, [], [QueueLoad(77, 2, 0)], QueueLoad(1, 1, 0)), NOW).low_s == 20.0


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (0, 20, "less than a minute"),
        (70, 80, "about 1 to 2 minutes"),
        (130, 230, "about 2 to 4 minutes"),
        (10, 100, "up to 2 minutes"),
        (5, 60, "up to one minute"),
        (3600, 9000, "about 1 to 3 hours"),
        (7200, 7200, "about 2 hours"),
        (200_000, 300_000, "about 2 to 4 days"),
    ],
)
def test_a_range_is_said_in_one_unit(low_s, high_s, words):
    assert spoken(low_s, high_s) == words
