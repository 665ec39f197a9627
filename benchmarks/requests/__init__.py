"""Requests for kernels: a definition that somebody posts becomes a task, people vote for it, and entries answer it.

Does NOT judge and rank answers: they are ordinary submissions to the task.
"""
