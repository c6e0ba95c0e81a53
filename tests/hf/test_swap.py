"""A T5 of the hub gets ALiBi in place of its buckets, and trains on: `init_from` on what `relformer import` left."""

import csv
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: the extra hf")

from relformer.hf.command import import_command
from tests.hf.models import T5, make
from tests.hf.tokenizers_made import saved_with, t5_tokenizer
from tests.reliability.small import run

STEPS = 50
AS_T5 = (
    *("model.width=32", "model.heads=3", "model.head_dim=8", "model.feedforward=48", "model.encoder_layers=3"),
    *("model.tie=all", "model.norm_type=rms", "model.feedforward_bias=false", "model.embedding_scale=output"),
    "cross_encoding.scale=1.0",
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def test_alibi_in_the_place_of_t5s_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(T5, "vocab_size", 80)
    saved_with(t5_tokenizer(), make("t5"), tmp_path / "theirs")
    import_command([f"hf:{tmp_path / 'theirs'}", f"to={tmp_path / 'run'}"])
    pairs = [f"{one} man in {two}\tein Mann in {two}\n" for one in LETTERS[:8] for two in LETTERS[:8]]
    (tmp_path / "pairs.tsv").write_text("".join(pairs))
    with caplog.at_level("INFO", "relformer"):
        found = run(
            tmp_path / "swapped",
            *("data=text_files", f"data.train.file={tmp_path / 'pairs.tsv'}", "data.held_out=8", "data.bos=false"),
            f"data.tokenizer.file={tmp_path / 'run' / 'tokenizer.json'}",
            *(f"init_from={tmp_path / 'run'}", "init_strict=false", "encoding=alibi", *AS_T5),
            *(
                f"trainer.max_steps={STEPS}",
                f"eval.every={STEPS}",
                "trainer.log_every_n_steps=1",
                "logger=csv",
                "optimizer.lr=0.01",
            ),
        )
    listed = [line.split()[:2] for line in caplog.text.splitlines() if line.startswith("  ")]
    assert [line for line in listed if line[0] in ("new", "dropped", "resized")] == [
        ["resized", "source_embedding.weight"],
        *(["dropped", f"{stack}.slot.encodings.0.bucket_weight"] for stack in ("encoder", "decoder")),
        ["dropped", "output_bias"],
    ]
    assert found["initialised"]["encoding"] == "t5"
    with (tmp_path / "swapped" / "csv" / "metrics.csv").open(newline="") as file:
        losses = [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]
    assert len(losses) == STEPS and sum(losses[-5:]) < 0.7 * sum(losses[:5]), losses
