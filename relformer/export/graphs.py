"""Encoder and decoder step as graphs of torch.export, to run without relformer.

    encoder.pt2   source (B, S) int64, padded with 0 -> states (B, S, E), values (B, S, E)
    decoder.pt2   states, values, source, target (B, T) from BOS on, padded with 0, last (B,) int64 -> logits (B, V)

`last` is the place of the newest target token, whose successor the logits are of. S = T = `length` is fixed: positions
are Python ranges while a graph is made, and a graph in which they vary is refused by torch.export. The batch varies.
Nothing is cached: a step runs the decoder over all T places.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from relformer.analysis.watch import attentions
from relformer.attention import sdpa
from relformer.data.vocabulary import BOS, EOS, PAD
from relformer.encodings import PositionalEncoding
from relformer.errors import OptionError, UserError
from relformer.export.folder import new_folder, write_parts
from relformer.model import EncoderDecoder, positions_needed
from relformer.model.attention import Attention
from relformer.model.cache import Encoded
from relformer.training.trained import TrainedRun

TOLERANCE = 1e-4
USAGE = """## Deploy

```python
import torch

encoder, decoder = (torch.export.load(f"{{name}}.pt2").module() for name in ("encoder", "decoder"))
source = torch.zeros(1, {length}, dtype=torch.long)  # ids {source}, then padding 0
states, values = encoder(source)
target = torch.zeros(1, {length}, dtype=torch.long)
target[:, 0] = {bos}
for last in range({length} - 1):
    token = decoder(states, values, source, target, torch.tensor([last])).argmax(-1)
    if token == {eos}:
        break
    target[:, last + 1] = token
```

"""


class EncoderGraph(nn.Module):
    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        x = self.model.source_embedding(source) * self.model.embed_scale
        encoded = self.model.encoder(x, source, source.ne(self.model.pad))
        return encoded.states, encoded.values


class DecoderGraph(nn.Module):
    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, states: Tensor, values: Tensor, source: Tensor, target: Tensor, last: Tensor) -> Tensor:
        batch, length = source.shape
        positions = self.model.slots["encoder"].positions(length, batch, source.device)
        encoded = Encoded(states, source.ne(self.model.pad), positions, values)
        decoded = self.model.decoded(target, self.model.decoder.start(encoded, target.shape[1]))
        newest = decoded.gather(1, last[:, None, None].expand(-1, 1, decoded.shape[-1]))
        return self.model.logits(newest)[:, 0]


def export_graphs(trained: TrainedRun, to: Path, length: int) -> Iterator[str]:
    """Write the folder of `export_folder` with both graphs in it, checked against the model; yields what to print.

    Raises:
        UserError: torch.export refuses the model, its graphs give other numbers, or `to` is taken.
        OptionError: the encoding has fewer positions than `length`.
    """
    model = trained.module.model.cpu().eval()
    if not isinstance(model, EncoderDecoder):
        raise UserError(
            "format=torch_export writes an encoder and a decoder, and a decoder-only model is one stack; choose "
            "format=folder"
        )
    limits = [limit for slot in model.slots.values() if (limit := slot.first.max_positions()) is not None]
    if limits and length > min(limits):
        raise OptionError("length", length, f"is more than the {min(limits)} positions that the encoding has")
    positions_needed(model, length, length)
    choose_kernels(model)
    frame = f"{'BOS=1, ' if trained.content['data']['bos'] else ''}the tokens, EOS={EOS}"
    with new_folder(to) as folder:
        write_parts(trained, folder, to.name, USAGE.format(length=length, source=frame, bos=BOS, eos=EOS))
        for name, program in graphs(model, length).items():
            torch.export.save(program, folder / f"{name}.pt2")
        worst = difference(model, folder, length)
        if worst > TOLERANCE:
            raise UserError(
                f"the graphs give logits that differ from the model's by {worst:.2g}, more than {TOLERANCE:g}; the "
                "encoding draws at random in evaluation, or torch.export has a fault with it"
            )
    yield f"graphs      {to}/encoder.pt2, {to}/decoder.pt2, for {length} positions a side; the usage is in README.md"
    yield f"checked     reloaded, on batches of 1 to 5: logits differ by {worst:.2g} at most"


def choose_kernels(model: EncoderDecoder) -> None:
    """Torch's own attention where it serves the encoding, else the dense kernel: the others are not for export."""
    served: dict[Attention, list[bool]] = {}
    for role, number, attention in attentions(model):
        slot = model.slots[role]
        encoding = slot.encodings[slot.of_layer[number]]
        assert isinstance(encoding, PositionalEncoding)
        served.setdefault(attention, []).append(sdpa.serves(encoding))
    for attention, calls in served.items():
        attention.backend = "sdpa" if all(calls) else "dense"


def graphs(model: EncoderDecoder, length: int) -> dict[str, ExportedProgram]:
    """Both, for any batch."""
    batch = Dim("batch", min=1, max=4096)
    source, target, last = example(model, 2, length, 0)
    found = {}
    with torch.no_grad():
        encoder, decoder = EncoderGraph(model), DecoderGraph(model)
        states, values = encoder(source)
        inputs = {"encoder": (source,), "decoder": (states, values, source, target, last)}
        for name, graph in (("encoder", encoder), ("decoder", decoder)):
            try:
                found[name] = torch.export.export(
                    graph, inputs[name], dynamic_shapes=tuple({0: batch} for _ in inputs[name])
                )
            except Exception as error:  # torch has a zoo of them, from RuntimeError on
                said = " ".join(str(error).split())[:300]
                raise UserError(f"torch.export refuses the {name} ({type(error).__name__}: {said})") from error
    return found


def example(model: EncoderDecoder, batch: int, length: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Source and target ids of several lengths, padded, and the place of each target's newest token."""
    generator = torch.Generator().manual_seed(seed)
    sides = []
    for vocabulary in (model.source_embedding, model.target_embedding):
        ids = torch.randint(EOS + 1, max(vocabulary.num_embeddings, EOS + 2), (batch, length), generator=generator)
        lengths = torch.randint(1, length + 1, (batch,), generator=generator)
        sides.append((ids.masked_fill(torch.arange(length) >= lengths[:, None], PAD), lengths))
    (source, _), (target, lengths) = sides
    return source, target, lengths - 1


@torch.no_grad()
def difference(model: EncoderDecoder, folder: Path, length: int) -> float:
    """The largest difference of logits between the graphs as they lie on the disk and the model."""
    encoder, decoder = (torch.export.load(folder / f"{name}.pt2").module() for name in ("encoder", "decoder"))
    worst = 0.0
    for batch in (1, 2, 5):
        source, target, last = example(model, batch, length, batch)
        logits = decoder(*encoder(source), source, target, last)
        expected = model(source, target)[torch.arange(batch), last]
        worst = max(worst, float((logits - expected).abs().max()))
    return worst
