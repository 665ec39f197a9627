"""What becomes of an evaluation: its place in the queue, the judge, what a report turns into, what to try next.

Does NOT move an evaluation between states (`services.py`), does NOT run jobs (`jobs.py`), and measures nothing (the
harness does).
"""
