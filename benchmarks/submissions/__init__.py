"""Submissions as texts: their languages, lists of them, and differences between them.

Does NOT write a submission (`services.py`) and does NOT judge one (`judgings/`).
"""
