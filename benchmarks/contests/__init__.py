"""Contests: sealed configurations, a start and an end by the clock, final judgings in one sitting, frozen results.

Practice goes on meanwhile and afterwards on the ordinary leaderboards of the tasks. Does NOT judge by rules of its own.
"""
