"""The processes of a judging: the only modules of the harness that import torch.

They run as `python -m` in a process of their own and are never imported by the web process, a worker or the
supervisor. Not covered here: starting and bounding those processes, which is the supervisor's work.
"""
