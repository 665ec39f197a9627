"""The pages of agent runs.

Does NOT stream: events are in `agents/record/feed.py`, through the stream of the site.
"""
