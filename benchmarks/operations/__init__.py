"""The site as its operators see it: whether it can work, how much there is to do, its workers, metrics and log fields.

Does NOT start processes (`kbench_site/workers.py`) and does NOT decide what runs next (`judgings/`).
"""
