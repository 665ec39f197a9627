"""The supervisor's side of the GPU track. It never holds a GPU context; the processes with one are in `child/gpu/`."""
