"""The pages of agent runs.

Does NOT stream: events are in `agents/feed.py`, through the stream of the site.
"""
