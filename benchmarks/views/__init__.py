"""The pages, one module per room of the site.

A view finds its row through a selector, runs one form or service, and renders; it never writes by itself.
What pages share is in `parts/`.
"""
