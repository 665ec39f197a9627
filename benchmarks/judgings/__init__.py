"""The life of an evaluation: its place in the queue, the judge, the results of a report, advice on what to try next.

Does NOT make one (`services.py`), does NOT run jobs (`jobs.py`), and measures nothing (the harness does).
"""
