"""Leaderboards: ranks, comparisons of methods, and the queries of their pages.

Ranking and comparing are pure functions. Only `standings.py` writes a leaderboard. Does NOT record reports
(`judgings/recording.py`).
"""
