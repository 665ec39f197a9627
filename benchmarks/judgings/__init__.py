"""Evaluations from queue to result: queue position, claims, the judge, recording of reports, advice to the author.

Does NOT make one (`services.py`), does NOT run jobs (`jobs`), and measures nothing (the harness does).
"""
