"""The public data set: everything that is public on the site as Parquet files, written anew every night.

Does NOT define the tables of agent runs: `agents/extension/data.py` adds them.
"""
