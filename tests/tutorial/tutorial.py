# %% [markdown]
# # What a positional encoding does
#
# Build one and look at it, train a small model with it, see how far it reaches, look inside, and put another in
# its place. Each cell runs as it stands; all of them take two minutes on one CPU core. (`jupytext --to ipynb`
# makes a notebook of this file.)

# %%
import subprocess
import sys

import matplotlib.pyplot as plt
import torch

import relformer

# %% [markdown]
# ## An encoding alone
#
# ALiBi and T5 add a bias to the logits that hangs on the distance i - j alone: a table of one row a head.

# %%
alibi = relformer.build_encoding("alibi", heads=4, head_dim=16)
t5 = relformer.build_encoding("t5", heads=4, head_dim=16, num_buckets=8, max_distance=16)
distance = torch.arange(-20, 21)
fig, axes = plt.subplots(1, 2, figsize=(9, 3), sharex=True)
for axis, (name, encoding) in zip(axes, {"alibi": alibi, "t5, untrained": t5}.items(), strict=True):
    axis.plot(distance, encoding.table(distance).detach().T)
    axis.set(title=name, xlabel="distance i - j", ylabel="bias in nats")

# %% [markdown]
# ## Attention under it
#
# `attend` is for one's own model: queries, keys and values (batch, heads, tokens, head size) in, the same out.
# With queries of zeros there is no content, and the weights show the encoding by itself.

# %%
tokens = 6
zeros, one_hot = torch.zeros(1, 4, tokens, 16), torch.eye(tokens, 16).expand(1, 4, tokens, 16)
weights = relformer.attend(zeros, zeros, one_hot, alibi, causal=True)[0, 0, :, :tokens]
print("weights of the steepest head, by query:")
print(weights.round(decimals=2))

# %% [markdown]
# ## A model that turns letters around
#
# Sources of 1 to 10 letters, targets the same letters backwards, positions by RoPE. Any option of the command
# line can be looked at before: a wrong name ends in a sentence.

# %%
config = relformer.compose(["data=reverse", "encoding=rope"])
print(config.encoding.name, "on", config.data.name, "with", config.model.encoder_layers, "layers a stack")
try:
    relformer.compose(["data=reverse", "encoding=ropa"])
except relformer.UserError as error:
    print(str(error).splitlines()[0])

# %%
SIZE = ["data=reverse", "data.examples=6000", "data.examples_per_length=50", "logger=csv", "trainer.accelerator=cpu"]
QUICK = ["eval.every=300", *(f"callbacks.{each}=null" for each in ("bias_heatmaps", "bias_profiles", "head_figures"))]


def train(*options: str) -> None:
    """What `relformer train OPTIONS` does in a shell."""
    subprocess.run([sys.executable, "-m", "relformer", "train", *SIZE, *QUICK, *options], check=True)


train("encoding=rope", "trainer.max_steps=300", "hydra.run.dir=runs/rope")

# %% [markdown]
# ## How far it reaches
#
# The test sets are of the trained lengths (`test_iid`) and of lengths 13 to 20 (`test_longer`).

# %%
model = relformer.load("runs/rope")
print(model.translate(["a b c d e", "h e l l o"]))
figures = model.evaluate()
for name in ("test_iid", "test_longer"):
    print(name, {row["max_length"]: round(row["token_accuracy"], 2) for row in figures[name]["by_length"]})

# %% [markdown]
# RoPE's frequencies can be slowed down on a trained model: position interpolation makes 20 positions look like
# 10.

# %%
slowed = relformer.load("runs/rope", "encoding.scaling.type=linear", "encoding.scaling.factor=2")
for name, each in (("as trained", model), ("interpolated", slowed)):
    longer = each.evaluate(set="test_longer")["test_longer"]
    print(f"{name:<13}loss beyond the trained length {longer['loss']:.2f}")

# %% [markdown]
# ## Inside
#
# `trace` gives every attention call of one sentence, its logits split into what the content says, what the
# encoding adds, and the mask. The decoder's cross-attention has no positions of its own here, so its position
# part is 0.

# %%
trace = model.trace("a b c d e", "e d c b a")
for call in trace:
    seen = call.mask == 0
    print(
        f"{call.slot:<8} layer {call.layer}   spread of the content part {call.content[seen].std():5.2f}"
        f"   of the position part {call.position[seen].std():5.2f}"
    )
first = trace["cross", 1]
fig, axis = plt.subplots()
axis.imshow(first.weights.mean(0))
axis.set_xticks(range(len(first.keys)), first.keys)
axis.set_yticks(range(len(first.queries)), first.queries)

# %% [markdown]
# ## Another encoding in its place
#
# `init_from` starts a run with the weights of another, in its own configuration. ALiBi has no weights, and RoPE
# has none either, so every tensor is taken; where some are new or dropped the run lists them and stops, unless
# `init_strict=false`.

# %%
train("init_from=runs/rope", "encoding=alibi", "trainer.max_steps=150", "hydra.run.dir=runs/alibi")
swapped = relformer.load("runs/alibi")
print("began with", swapped.config["initialised"]["encoding"], "- exact match", end=" ")
print(round(swapped.evaluate(set="test_iid")["test_iid"]["exact_match"], 2))

# %% [markdown]
# ## To keep, to send
#
# `relformer export` makes a folder of a run: weights in safetensors, the configuration, the vocabulary and a
# card.

# %%
subprocess.run([sys.executable, "-m", "relformer", "export", "runs/alibi", "to=reverser"], check=True)
assert relformer.load("reverser").translate(["a b c"]) == swapped.translate(["a b c"])
