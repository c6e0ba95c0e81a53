"""Peak memory of a call: what it needs beyond what the process holds before it.

On a CPU a forked process makes the call twice and measures the second, when the code is loaded and libraries have their
buffers: its highest resident size (VmHWM) over the size before. Freed memory goes back to the system at once there, so
that this is what lives at one time, as what a GPU's allocator counts.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from relformer.errors import UserError

MB = 2**20
LARGE = 2**16
M_MMAP_THRESHOLD, IS_MMAPPED = -3, 2
"""Of glibc: the number of the option, and the bit in the word before a block."""


def peak(run: Callable[[], object], device: torch.device) -> float:
    """MB that `run` holds at its peak, beside what was there before.

    Raises:
        UserError: the system does not tell, or there is not enough.
    """
    if device.type == "cuda":
        run()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / MB
    if device.type != "cpu" or not Path("/proc/self/clear_refs").exists():
        raise UserError(f"peak memory can't be read on {device.type} here; leave memory out of what=")
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=told, args=(run, writer))
    process.start()
    writer.close()
    try:
        found: float = reader.recv()
    except EOFError:
        process.join()
        if process.exitcode == -9:
            raise UserError("there is not enough memory for this call; choose fewer sentences or tokens") from None
        raise RuntimeError(f"the process that measured memory ended with exit code {process.exitcode}") from None
    process.join()
    return found / MB


def told(run: Callable[[], object], writer: Connection) -> None:
    map_large()
    run()
    gc.collect()
    give_back()
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
    before = size_of("VmRSS")
    run()
    writer.send(size_of("VmHWM") - before)


def map_large() -> None:
    """Have glibc's malloc map every block of `LARGE` or more by itself, so that it leaves when it is freed.

    Else the peak hangs on which freed block the next one happens to fit in. Free blocks that the parent left come first
    in any case, so they are taken and kept.
    """
    c = ctypes.CDLL(None)
    if not hasattr(c, "mallopt"):
        return
    c.mallopt(M_MMAP_THRESHOLD, LARGE)
    c.malloc.argtypes, c.malloc.restype = [ctypes.c_size_t], ctypes.c_size_t
    for _ in range(size_of("VmData") // LARGE):
        head = ctypes.c_size_t.from_address(c.malloc(LARGE) - ctypes.sizeof(ctypes.c_size_t))
        if head.value & IS_MMAPPED:
            break


def give_back() -> None:
    """Return what malloc keeps of freed memory, where the C library can: the next call would not be seen to take it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def size_of(key: str) -> int:
    """Bytes, of this process."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index(f"{key}:") + 1]) * 1024
