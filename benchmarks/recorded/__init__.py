"""Results that were judged on another site or on an earlier day: bundles of them, and their leaderboards.

`bundles.py` is the format of a file, `making.py` writes one from this site, `loading.py` reads one into the tables,
`selectors.py` is what pages read. Does NOT judge, and never writes a standing: recorded entries rank among themselves.
"""
