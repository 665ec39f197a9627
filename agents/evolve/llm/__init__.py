"""Calls to language models: prices, one client over the `anthropic` package, prompts, answers and arms.

Nothing here decides whether a kernel is good; that is the judge's alone. Other vendors are not covered.
"""
