"""What staff decide, and what follows in public: decisions, the review queue, entries that are judged again.

Does NOT judge, does NOT rank, and changes no score: what a decision means for a board is in `boards/standings.py`.
"""
