"""Reading the memory of another process (process_vm_readv), so that results need no help of the process that made them.

Linux only. The reader must be an ancestor of the process or root, and is, since the supervisor started it.
"""

import ctypes
import errno

import numpy as np
from numpy.typing import NDArray

_libc = ctypes.CDLL(None, use_errno=True)
_read = _libc.process_vm_readv
_read.restype = ctypes.c_ssize_t
_read.argtypes = [ctypes.c_int, *(ctypes.c_void_p, ctypes.c_ulong) * 2, ctypes.c_ulong]
_SPANS_MAX = 1024  # of one call of the kernel (IOV_MAX)


class MemoryReader:
    """Reads spans of fixed sizes into `target`, one after the other. Made ahead, so that reading takes one call."""

    def __init__(self, target: NDArray[np.uint8], sizes_bytes: NDArray[np.uint64]) -> None:
        self._target = target  # keeps it alive
        self._total_bytes = int(sizes_bytes.sum())
        if self._total_bytes > target.nbytes or len(sizes_bytes) > _SPANS_MAX:
            raise ValueError("the spans do not fit")
        self._local = np.array([[target.ctypes.data, self._total_bytes]], dtype=np.uint64)
        self._remote = np.zeros((len(sizes_bytes), 2), dtype=np.uint64)
        self._remote[:, 1] = sizes_bytes
        self._arguments = (self._local.ctypes.data, 1, self._remote.ctypes.data, len(sizes_bytes), 0)

    def read(self, pid: int, addresses: NDArray[np.uint64]) -> bool:
        """Reads the spans that begin at `addresses` in process `pid`; False if there is no such memory or process.

        Raises PermissionError where this machine forbids reading the memory of a child.
        """
        self._remote[:, 0] = addresses
        count: int = _read(pid, *self._arguments)
        if count < 0 and ctypes.get_errno() == errno.EPERM:
            raise PermissionError(errno.EPERM, "reading the memory of a child is forbidden on this machine")
        return count == self._total_bytes
