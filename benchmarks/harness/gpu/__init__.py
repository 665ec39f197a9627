"""The supervisor's side of the GPU track. It never holds a GPU context; what does runs in `child/gpu/`."""
