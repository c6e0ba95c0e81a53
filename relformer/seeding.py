"""Seeding the generators of one device, at every step and for every parameter if need be."""

import torch


def seed_generators(seed: int, device: torch.device | None = None) -> None:
    """Of the CPU and of the device in use. As `torch.manual_seed` does, but for the devices that are not: where those
    are not initialised it keeps a formatted stack of each call (0.5 ms, more in deep stacks, and never freed)."""
    torch.default_generator.manual_seed(seed)
    if device is not None and device.type in ("cuda", "xpu"):
        backend = getattr(torch, device.type)
        with backend.device(device):
            backend.manual_seed(seed)
    elif device is not None and device.type == "mps":
        torch.mps.manual_seed(seed)
