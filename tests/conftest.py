"""What all tests share: one thread, so that times and sums are the same on every machine, and a cache of their own."""

import atexit
import os
import shutil
import tempfile

import torch

torch.set_num_threads(1)
if "RELFORMER_TEST_CACHE" not in os.environ:  # once for all processes of a session
    os.environ["RELFORMER_TEST_CACHE"] = os.environ["RELFORMER_CACHE"] = tempfile.mkdtemp(prefix="relformer-tests-")
    atexit.register(shutil.rmtree, os.environ["RELFORMER_CACHE"], ignore_errors=True)
