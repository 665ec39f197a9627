"""A corpus of CUDA kernels for measuring what the verifiers see: correct ones and their mutants.

`seeds.py` says which kernels it starts from, `operators.py` how they are changed, `specimens.py` which changes are
made. Labels come from a judge with a GPU (`lab/gpu/label_cuda.py`), never from how a file was made.
"""
