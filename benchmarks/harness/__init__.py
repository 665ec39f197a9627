"""The judge as a library: `judge(source, task, rules, paths=...)` gives a `Report`.

Everything outside this package imports from here and from nowhere below. The package imports neither Django nor
Celery, and torch only in `child/`, which runs in processes of its own and is never imported.
"""
