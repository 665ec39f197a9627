"""The search itself, pure: no Django, no torch, and of the benchmark only the harness's door.

A run is an append-only log of events (`events.py`); everything else is a fold over it. Not covered: pages, queues and
databases, which the app around this package brings.
"""
