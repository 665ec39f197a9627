"""Notifications of an account: on the site, by e-mail, to a webhook. Nothing is sent while a page is made.

Does NOT send events to open pages: that is `events.py`.
"""
