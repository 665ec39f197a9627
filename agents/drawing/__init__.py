"""A run as pictures: the best score so far, who descends from whom, and what changed between two candidates."""
