"""Training is a pure function of the lines and the options, in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import relformer
from relformer.data.text.manual import paragraphs
from relformer.data.text.tokenizer import TokenizerOptions, train_tokenizer
from relformer.data.text.tokenizer_training import byte_alphabet

SCRIPT = """
import hashlib
from itertools import islice
from relformer.data.text.manual import paragraphs
from relformer.data.text.tokenizer import TokenizerOptions, train_tokenizer
lines = list(islice(paragraphs(), 300))
for kind in ("bpe", "unigram", "word", "char", "byte"):
    json = train_tokenizer(lines, TokenizerOptions(kind=kind, size=600), progress=False).json
    print(kind, hashlib.sha256(json.encode()).hexdigest())
"""


def test_the_same_lines_give_the_same_tokenizer_in_other_processes():
    """Hash seeds and the number of threads differ between them, and the library's hash maps are seeded at random."""
    printed = []
    for seed in ("1", "2", "3"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "RAYON_NUM_THREADS": seed,
            "PYTHONPATH": str(Path(relformer.__file__).parents[1]),
        }
        command = [sys.executable, "-c", SCRIPT]
        printed.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(printed[0].splitlines()) == 5
    assert printed[0] == printed[1] == printed[2]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_shorten_text(kind):
    lines = list(paragraphs())
    tokenizer = train_tokenizer(lines[::2], TokenizerOptions(kind=kind, size=2000), progress=False)
    unseen = lines[1::2]
    tokens = sum(map(len, tokenizer.encode_batch(unseen)))
    assert sum(len(line.encode()) for line in unseen) > 3 * tokens


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
@pytest.mark.parametrize("more", [0, 1, 40])
@pytest.mark.parametrize("lines", [60, 600])
def test_size_bounds_the_vocabulary_and_is_reached(kind, more, lines):
    """From the least size that the options allow on."""
    size = TokenizerOptions(kind=kind).least_size + more
    options = TokenizerOptions(kind=kind, size=size)
    assert len(train_tokenizer(list(paragraphs())[:lines], options, progress=False)) == size


def test_lines_are_streamed():
    """More than one batch, from an iterator that can be read but once."""
    tokenizer = train_tokenizer((f"w{n}" for n in range(2500)), TokenizerOptions(kind="word"), progress=False)
    assert len(tokenizer) == 2500 + 4


def test_the_alphabet_stands_for_the_bytes_in_order():
    """Five entries of GPT-2's table."""
    alphabet = byte_alphabet()
    assert len(set(alphabet)) == 256
    assert (alphabet[0], alphabet[0x0A], alphabet[0x20], alphabet[0x41], alphabet[0xAD]) == ("Ā", "Ċ", "Ġ", "A", "Ń")
