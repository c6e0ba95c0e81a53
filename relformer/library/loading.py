"""A trained model in one's own code: translate, evaluate, look inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relformer.analysis.trace import Traced
    from relformer.data.vocabulary import Coder
    from relformer.encodings import Role
    from relformer.model import Seq2Seq
    from relformer.training.trained import TrainedRun
    from relformer.translation import Translation


def load(path: str | Path, *overrides: str) -> Loaded:
    """A run's directory, a checkpoint, or a folder of `relformer export`, ready to use.

    Args:
        overrides: as behind `relformer evaluate RUN`: "decoding=beam", "average=5", "encoding.scaling.type=linear".

    Raises:
        UserError: no such run, one that is damaged, or an option that can't change after training.
    """
    from relformer.config import prepare
    from relformer.training.trained import open_run

    prepare()
    return Loaded(open_run(str(path), overrides), str(path), overrides)


@dataclass(frozen=True, eq=False)
class Trace:
    """The attention of one sentence pair, call by call in the order of a pass: `trace["decoder", 0].position`."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    """The tokens as the model read them: with EOS, and with BOS."""
    calls: tuple[Traced, ...]

    def __repr__(self) -> str:
        return f"<trace: {', '.join(str((each.slot, each.layer)) for each in self.calls)}>"

    def __iter__(self) -> Iterator[Traced]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __getitem__(self, place: tuple[Role, int]) -> Traced:
        """The call of a slot (encoder, decoder, cross) and a layer. Raises KeyError for another place."""
        for call in self.calls:
            if (call.slot, call.layer) == place:
                return call
        raise KeyError(f"no call {place}; there are {', '.join(str((each.slot, each.layer)) for each in self.calls)}")


class Loaded:
    """A trained model. `model` is the torch module, in evaluation mode, `config` what it was trained with."""

    def __init__(self, trained: TrainedRun, path: str, overrides: Sequence[str]) -> None:
        self.trained, self.path, self.overrides = trained, path, tuple(overrides)
        self.model: Seq2Seq = trained.module.model.eval()

    def __repr__(self) -> str:
        return f"<relformer.load: {self.trained.title}>"

    @property
    def config(self) -> Mapping[str, Any]:
        return {key: part for key, part in self.trained.module.config.items() if key != "vocabulary"}

    @property
    def source_vocabulary(self) -> Coder:
        return self.trained.coders[0]

    @property
    def target_vocabulary(self) -> Coder:
        return self.trained.coders[1]

    def translate(self, lines: Sequence[str], **decoding: Any) -> list[str]:
        """The best output of each line, in order; an empty line has an empty one.

        Args:
            decoding: options of `decoding` for this call: beams=5, temperature=0.7.

        Raises:
            UserError: a line that the vocabulary can't read, or an option that decoding doesn't have.
        """
        return [found[0].text if found else "" for found in self.hypotheses(lines, **decoding)]

    def hypotheses(self, lines: Sequence[str], **decoding: Any) -> list[list[Translation]]:
        """The `n_best` outputs of each line with their scores, best first."""
        from relformer.errors import UserError
        from relformer.translation import Translator

        if isinstance(lines, str):
            raise UserError("translate takes a list of lines, not one string; write [line]")
        content = self.trained.content
        changed = {**content, "decoding": {**content["decoding"], **checked(decoding)}}
        device = next(self.model.parameters()).device
        return Translator(replace(self.trained, content=changed), device).translate(lines)

    def evaluate(self, *overrides: str, set: str | None = None) -> dict[str, dict[str, Any]]:
        """The figures of every evaluation set, or of one: exact match, loss and the like, and `by_length`.

        Of the weights as they are now; nothing is written.

        Args:
            overrides: as of `relformer evaluate`: "data.test.max_length=40".
            set: the name of one: test_iid, val_longer.

        Raises:
            UserError: no such set, a key that can't change after training, lengths that the encoding doesn't have.
        """
        from relformer.training.evaluate import measure
        from relformer.training.trained import open_run

        trained = open_run(self.path, [*self.overrides, *overrides])
        trained.module.model.load_state_dict(self.model.state_dict())
        return measure(trained, set).figures

    def trace(self, source: str, target: str | None = None) -> Trace:
        """Every attention call on a sentence pair, its logits split into content, position and mask: see
        `relformer.analysis.trace`. Without a target, on what the model itself writes.

        Raises:
            UserError: a text that the vocabulary can't read, or longer than the encoding has positions.
        """
        import torch

        from relformer.analysis.trace import trace_calls
        from relformer.data.corpus import common_options

        target = self.translate([source])[0] if target is None else target
        frame = common_options(self.trained.content["data"]).frame
        asked = frame.source(self.source_vocabulary.encode(source))
        written = frame.target(self.target_vocabulary.encode(target))
        device = next(self.model.parameters()).device
        calls = trace_calls(self.model, torch.tensor([asked], device=device), torch.tensor([written], device=device))
        tokens = {
            "source": tuple(self.source_vocabulary.tokens[number] for number in asked),
            "target": tuple(self.target_vocabulary.tokens[number] for number in written),
        }
        sides = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
        if "encoder" not in self.model.stacks:
            tokens["both"] = tokens["source"] + tokens["target"]
            sides = {"decoder": ("both", "both")}
        named = [replace(call, queries=tokens[sides[call.slot][0]], keys=tokens[sides[call.slot][1]]) for call in calls]
        return Trace(tokens["source"], tokens["target"], tuple(named))


def checked(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """Options of decoding, by name and type."""
    from typing import get_type_hints

    from relformer.decoding import DecodingOptions
    from relformer.errors import OptionError
    from relformer.registry import Entry

    try:
        return Entry("decoding", DecodingOptions).typed(decoding, get_type_hints(DecodingOptions))
    except OptionError as error:
        raise error.at("decoding") from None
