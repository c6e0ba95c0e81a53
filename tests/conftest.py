"""What all tests share: one thread, so that times and sums are the same on every machine."""

import torch

torch.set_num_threads(1)
