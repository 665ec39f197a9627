"""Pictures of a run: the best score so far, the lineage of candidates, and the difference between two of them."""
