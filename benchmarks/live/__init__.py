"""Pages that follow what happens: events are written, and one stream passes them on.

Does NOT render anything: an event says "look again", and the page fetches what it needs.
"""
