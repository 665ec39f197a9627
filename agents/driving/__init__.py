"""Driving a run in a worker: the search with the site's log, database and queue around it."""
