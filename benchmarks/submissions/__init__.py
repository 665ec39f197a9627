"""Submissions as texts: their languages, lists of them, and what changed from one to another.

Does NOT write a submission (`services.py`) and does NOT judge one (`judgings/`).
"""
