"""Two workers, one row: exactly one gets it. Real threads on a real database file."""

import threading

import pytest
from django.db import connections

from benchmarks.judgings import moves
from benchmarks.models import Evaluation
from benchmarks.states import State

from .conftest import claimed_to_compile, make_worker

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(count, action):
    """What `action(number)` gave in each of `count` threads that start together."""
    gate, results = threading.Barrier(count), {}

    def run(number):
        gate.wait()
        try:
            results[number] = action(number)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(count)]


def test_of_many_workers_one_claims_an_evaluation(submit):
    submit()
    workers = [make_worker("compile", name=f"compile@{number}") for number in range(6)]
    holdings = at_once(6, lambda number: claimed_to_compile(workers[number]))
    assert len([holding for holding in holdings if holding]) == 1


def test_many_workers_share_many_evaluations_without_overlap(submit):
    for _ in range(12):
        submit()
    workers = [make_worker("compile", name=f"compile@{number}") for number in range(4)]
    taken = at_once(4, lambda number: [claimed_to_compile(workers[number]) for _ in range(3)])
    pks = [holding.evaluation.pk for holdings in taken for holding in holdings]
    assert len(set(pks)) == 12


def test_cancelling_and_claiming_at_once_leaves_one_winner(submit):
    evaluation = submit()
    worker = make_worker("compile")
    acts = [lambda: moves.evaluation_cancel(evaluation, "Not wanted."), lambda: claimed_to_compile(worker)]
    cancelled, _ = at_once(2, lambda number: acts[number]())
    assert cancelled
    assert Evaluation.objects.get().state == State.CANCELLED


def test_the_same_token_sent_at_once_makes_one_submission(submit):
    evaluations = at_once(4, lambda _: submit(client_token="once").pk)
    assert len(set(evaluations)) == 1
    assert Evaluation.objects.count() == 1
