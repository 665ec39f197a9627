"""Parts of several pages: lines of a leaderboard, charts and figures, the choice of a device, the reader of a page.

Does NOT answer requests: no address leads here.
"""
