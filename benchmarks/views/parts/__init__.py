"""What several pages share: lines of a leaderboard, charts and figures, the choice of a device, who looks at a page.

Does NOT answer requests: no address leads here.
"""
