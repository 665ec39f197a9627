"""The catalogue: suites, tasks and their versions, rule sets, device kinds.

Rows come from the folders of the repository or from a foreign suite. Does NOT read foreign folders (`importers/`), does
NOT hold the tasks and rules themselves (`suites/`, `rules/`), and judges nothing.
"""
