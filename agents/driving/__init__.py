"""Drives a run in a worker: connects the search with the site's log, database and queue."""
