"""The search itself, without Django and torch; of `benchmarks` it uses only the interfaces of harness and emulator.

A run is an append-only log of events (`events.py`); everything else is computed from it. Not covered: pages, queues
and databases, which are in the app around this package.
"""
