"""Who stands where: ranks and methods compared as pure functions, and what the pages of boards read.

Costs are a registry, figures are charts as data, labels say what keeps a task's entries off the boards. Only
`standings.py` writes a board. Does NOT record what a report says (`judgings/recording.py`).
"""
