"""What all tests share: one thread, so that times and sums are the same on every machine, a cache of their own, and
Ctrl-C, which jobs in the background, and what they start, ignore."""

import atexit
import os
import shutil
import signal
import tempfile

import torch

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
if "RELFORMER_TEST_CACHE" not in os.environ:  # once for all processes of a session
    os.environ["RELFORMER_TEST_CACHE"] = os.environ["RELFORMER_CACHE"] = tempfile.mkdtemp(prefix="relformer-tests-")
    atexit.register(shutil.rmtree, os.environ["RELFORMER_CACHE"], ignore_errors=True)
