"""Moderation: decisions of staff, the review queue, the public log, entries that are judged again.

Does NOT judge, does NOT rank, and changes no score: the effect of a decision on a leaderboard is in
`boards/standings.py`.
"""
