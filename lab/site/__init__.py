"""The parts of `python -m lab.site`: a large site, its addresses, and what is measured on it."""

QUERIES = "X-Queries"  # the header in which the site under measurement says how many queries an answer took
