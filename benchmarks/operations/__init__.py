"""Operation of the site: health, load, workers, metrics and log fields.

Does NOT start processes (`kbench_site/workers.py`) and does NOT decide what runs next (`judgings/`).
"""
