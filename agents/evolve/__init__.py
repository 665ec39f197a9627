"""The search itself, without Django and torch; of the benchmark it uses only the public interface of the harness.

A run is an append-only log of events (`events.py`); everything else is computed from it. Not covered: pages, queues
and databases, which are in the app around this package.
"""
