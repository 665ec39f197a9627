"""Profiles of kernels: chosen metrics, a roofline, one named bottleneck, and a short text of them for prompts.

Pure: reads what tools have printed and decides nothing about a score. Running the tools is `gpu/profiler.py` and
`compilers/listings.py`.
"""
