"""Training with everything shared out: each device holds its part of every weight, gradient and optimizer state (FSDP2,
`torch.distributed.fsdp.fully_shard`; Zhao et al. 2023, arXiv:2304.11277; Rajbhandari et al. 2020, arXiv:1910.02054).

The layers are one group each, gathered while they work; the rest, embeddings and the encodings that the stacks own and
all layers read, is the root's and stays gathered from a step's beginning to its backward pass. Checkpoints hold whole
tensors, as of one process, and one process or any other number goes on from them.

Evaluation and figures see a copy with all weights, on each device: sentences end at different lengths on different
ranks, and figures are drawn by one rank alone, so no collective may lie in a layer. A device must hold the weights
once, therefore; what it is spared are gradients, optimizer states and what float32 copies training needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from relformer.model import Seq2Seq, build_model

PRODUCTS = {"bf16-mixed": torch.bfloat16}
"""In what a layer's weights are gathered on a GPU, by `trainer.precision`; gradients are summed in float32. A CPU's
normalisation takes no bfloat16 weights beside float32 states: there all are gathered as they are."""


class FullySharded(ModelParallelStrategy):
    """All devices of all nodes share out the model: `hardware=fsdp`. Lightning's own strategy runs on a CPU too, and
    saves the optimizer by the order of the model's parameters, where ours are in groups."""

    def __init__(self) -> None:
        super().__init__(save_distributed_checkpoint=False)

    def setup_environment(self) -> None:
        self._data_parallel_size, self._tensor_parallel_size = self.num_nodes * self.num_processes, 1
        super().setup_environment()

    def shard(self, module: LightningModule) -> None:
        """Share out the weights of a module, once."""
        if is_sharded(module):
            return
        mesh = self.device_mesh["data_parallel"]
        on_cpu = self.root_device.type == "cpu"
        product = None if on_cpu else PRODUCTS.get(str(self.precision_plugin.precision))
        policy = MixedPrecisionPolicy(product, torch.float32 if product else None, cast_forward_inputs=False)
        model = cast(Seq2Seq, module.model)
        for layer in (layer for stack in model.stacks.values() for layer in stack.layers):
            if (crossing := getattr(layer, "cross_attention", None)) is not None:
                fully_shard(crossing, mesh=mesh, mp_policy=policy)
                register_fsdp_forward_method(crossing, "memory")  # the decoder projects the source before its layers
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(module, mesh=mesh)
        register_fsdp_forward_method(module, "training_step")

    @property
    def lightning_restore_optimizer(self) -> bool:
        return True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        assert self.lightning_module is not None
        return self.gathered(self.lightning_module.state_dict())

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        return self.gathered(optimizer.state_dict())

    def gathered(self, state: dict[str, Any]) -> dict[str, Any]:
        """A state with whole tensors, on the CPU of rank 0; other ranks take part, and keep nothing."""

        def whole(value: Any) -> Any:
            if not isinstance(value, DTensor):
                return value
            full = value.full_tensor()
            return full.cpu() if self.is_global_zero else None

        return cast(dict[str, Any], tree_map(whole, state))

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        return super(ModelParallelStrategy, self).load_checkpoint(checkpoint_path, weights_only)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert self.lightning_module is not None
        load_weights(self.lightning_module, checkpoint["state_dict"])

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            shared = {
                number: {key: like(value, parameters[number]) for key, value in values.items()}
                for number, values in state["state"].items()
            }
            optimizer.load_state_dict({**state, "state": shared})


def like(value: Any, owner: Tensor) -> Any:
    """A whole tensor, shared out as the tensor of its shape is that it belongs to."""
    if not isinstance(owner, DTensor) or not isinstance(value, Tensor) or value.shape != owner.shape:
        return value
    return distribute_tensor(value.to(owner.device), owner.device_mesh, owner.placements)


def load_weights(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load whole tensors into a module, sharded or not. All ranks call it."""
    own = module.state_dict()
    module.load_state_dict({name: like(value, own[name]) if name in own else value for name, value in state.items()})


def is_sharded(module: nn.Module) -> bool:
    """Whether the weights of a module are shared out."""
    return isinstance(module, FSDPModule)


def local(tensor: Tensor) -> Tensor:
    """What of a tensor is on this device."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole_model(module: Any) -> Seq2Seq:
    """The model of a module with all its weights on every rank; its own where it is not sharded. All ranks call it."""
    if not is_sharded(module):
        return cast(Seq2Seq, module.model)
    held = vars(module)
    if "whole" not in held:
        sizes = len(module.source_vocabulary), len(module.target_vocabulary)
        held["whole"] = build_model(module.config, *sizes, module.model.pad).to(module.device).eval()
    model: Seq2Seq = held["whole"]
    own = module.model.state_dict()
    model.load_state_dict({name: v.full_tensor() if isinstance(v, DTensor) else v for name, v in own.items()})
    return model


@contextmanager
def whole(module: Any) -> Iterator[None]:
    """Within this `module.model` has all its weights. All ranks enter."""
    sharded, module.model = module.model, whole_model(module)
    try:
        yield
    finally:
        module.model = sharded
