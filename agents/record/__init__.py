"""The log of a run: appended to, folded into what pages read, streamed, put into words, and withheld in part."""
