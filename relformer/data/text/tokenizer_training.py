"""Training a tokenizer on lines of text, with the `tokenizers` library.

`bpe` (Sennrich et al. 2016, arXiv:1508.07909) and `unigram` (Kudo 2018, arXiv:1804.10959) work on UTF-8 bytes, as in
GPT-2, so that no text holds an unknown token. A space is put before every text and one taken off after decoding: the
word at the beginning of a sentence is then the same token as elsewhere, and leading spaces survive. `byte` has the ids
of ByT5 (Xue et al. 2022, arXiv:2105.13626) but for the control tokens; `word` and `char` have an unknown token.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, get_args

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from relformer.data.vocabulary import SPECIAL
from relformer.errors import OptionError, UserError

logger = logging.getLogger("relformer")

Kind = Literal["bpe", "unigram", "word", "char", "byte"]
Form = Literal["nfc", "nfd", "nfkc", "nfkd", "none"]
UNKNOWN = {"word": "< unk >", "char": "<unk>"}
"""Names that no text can produce: a word holds no space, and a character is one character."""
LONG_WORD = 100
HUGE = 50_000
# GPT-2's pattern without its English contractions, and with marks and joiners kept in their words: its own cuts a
# Devanagari, Thai or NFD word at every mark, and an emoji at its joiners.
WORDS = r" ?\p{L}[\p{L}\p{M}\x{200C}\x{200D}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Only ASCII white space parts words: a no-break space binds them.
SPACES = r"[ \t\n\r\x0b\x0c]+"
_BATCH = 1000


@dataclass(frozen=True)
class TokenizerOptions:
    """How text becomes tokens.

    Options:
        kind: subwords (`bpe`, `unigram`), white-space separated words, characters or bytes.
        size: at most so many tokens, the three control tokens and an unknown token included.
        joint: one tokenizer for both sides.
        lowercase: before anything else; decoding cannot undo it.
        normalize: the Unicode normal form. `nfkc` and `nfkd` change what is printed (U+FE30 becomes "..").
        min_frequency: rarer pairs (`bpe`), words or characters get no token of their own.
        file: a `tokenizer.json` used instead of training one; it decides all of the above but `joint`. For both sides,
            or for the source alone where `target_file` is given.
        target_file: the `tokenizer.json` of the target.
    """

    kind: Kind = "bpe"
    size: int = 8000
    joint: bool = True
    lowercase: bool = False
    normalize: Form = "nfc"
    min_frequency: int = 1
    file: str | None = None
    target_file: str | None = None

    def __post_init__(self) -> None:
        for option, choices in (("kind", get_args(Kind)), ("normalize", get_args(Form))):
            if getattr(self, option) not in choices:
                raise OptionError(option, getattr(self, option), f"must be one of {', '.join(choices)}")
        if self.size < self.least_size:
            raise OptionError("size", self.size, f"is too small for kind={self.kind}, which needs {self.least_size}")
        if self.min_frequency < 1:
            raise OptionError("min_frequency", self.min_frequency, "must be at least 1")
        if self.min_frequency > 1 and self.kind in ("unigram", "byte"):
            raise OptionError("min_frequency", self.min_frequency, f"does nothing for kind={self.kind}; leave it at 1")
        if self.target_file and not self.file:
            raise OptionError("target_file", self.target_file, "needs `file`, the tokenizer of the source")
        if self.target_file and self.joint:
            raise OptionError("target_file", self.target_file, "needs joint=false: two files are two tokenizers")

    @property
    def least_size(self) -> int:
        """The control tokens and the alphabet: all bytes, or the unknown token and one more.

        The library's unigram trainer never stops at the bare alphabet: it overshoots by hundreds.
        """
        return len(SPECIAL) + {"word": 2, "char": 2, "unigram": 257}.get(self.kind, 256)


def train_library_tokenizer(lines: Iterable[str], options: TokenizerOptions, progress: bool) -> tokenizers.Tokenizer:
    """The same lines in the same order give the same tokenizer, in every process.

    Raises:
        UserError: there is no text in `lines`, or no word or character frequent enough.
    """
    normalizer = _normalizer(options)
    if options.kind == "byte":
        tokenizer = tokenizers.Tokenizer(models.BPE({byte: number for number, byte in enumerate(byte_alphabet())}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.normalizer = normalizers.Sequence(normalizer)
        return tokenizer
    room = options.size - len(SPECIAL)
    if options.kind in ("bpe", "unigram"):
        normalizer.append(normalizers.Prepend(" "))
        tokenizer = _subwords(_batches(lines), room, options, normalizers.Sequence(normalizer), progress)
    else:
        tokenizer = _counted(_batches(lines), room, options, normalizers.Sequence(normalizer))
    tokenizer.normalizer = normalizers.Sequence(normalizer)
    if tokenizer.get_vocab_size() < room:
        logger.info(
            "the text has only %d of the %d tokens of tokenizer.size for a vocabulary of kind %s",
            tokenizer.get_vocab_size() + len(SPECIAL), options.size, options.kind,
        )  # fmt: skip
    return tokenizer


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes, by byte: printable ones for themselves, the others from U+0100 on."""
    shown = set(pre_tokenizers.ByteLevel.alphabet())
    shifted = iter(sorted(shown - {chr(byte) for byte in range(256)}))
    return [chr(byte) if chr(byte) in shown else next(shifted) for byte in range(256)]


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    """The non-empty lines, many at once, which the library reads on all cores.

    Raises:
        UserError: at once, where there are none.
    """
    texts = filter(None, lines)
    first = list(islice(texts, _BATCH))
    if not first:
        raise UserError("there is no text to train a tokenizer on: every line is empty, or there is none")
    return chain([first], iter(lambda: list(islice(texts, _BATCH)), []))


def _normalizer(options: TokenizerOptions) -> list[normalizers.Normalizer]:
    """Lower case first: it can leave a text that is not in normal form."""
    lower = [normalizers.Lowercase()] if options.lowercase else []
    form = [] if options.normalize == "none" else [getattr(normalizers, options.normalize.upper())()]
    return [*lower, *form]


def _subwords(
    texts: Iterator[list[str]],
    room: int,
    options: TokenizerOptions,
    normalizer: normalizers.Normalizer,
    progress: bool,
) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE() if options.kind == "bpe" else models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer: trainers.Trainer
    if options.kind == "bpe":
        trainer = trainers.BpeTrainer(
            vocab_size=room,
            min_frequency=options.min_frequency,
            initial_alphabet=byte_alphabet(),
            show_progress=progress,
        )
    else:
        trainer = trainers.UnigramTrainer(vocab_size=room, initial_alphabet=byte_alphabet(), show_progress=progress)
    tokenizer.train_from_iterator(texts, trainer)
    if options.kind == "unigram":
        tokenizer.model = _reproducible(tokenizer)
    return tokenizer


def _reproducible(tokenizer: tokenizers.Tokenizer) -> models.Unigram:
    """The same pieces with scores and an order that do not hang on the seed of the library's hash maps.

    It sums in the order of a hash map, which moves scores by some 1e-12, and gives bytes that it found no use for
    scores 0.0001 apart in such an order. Here scores are rounded, and those bytes share the lowest score.
    """
    pieces = json.loads(tokenizer.to_str())["model"]["vocab"]
    lowest = min(score for _, score in pieces)
    apart = 256 * 0.0001
    scores = {
        piece: round(lowest if len(piece) == 1 and score <= lowest + apart else score, 4) for piece, score in pieces
    }
    return models.Unigram(sorted(scores.items(), key=lambda entry: (-entry[1], entry[0])))


def _counted(
    texts: Iterator[list[str]], room: int, options: TokenizerOptions, normalizer: normalizers.Normalizer
) -> tokenizers.Tokenizer:
    """Words or characters by falling frequency, ties in the order of code points, behind the unknown token."""
    counts: Counter[str] = Counter()
    cut = re.compile(SPACES)
    for batch in texts:
        for text in batch:
            normal = normalizer.normalize_str(text)
            counts.update(filter(None, cut.split(normal)) if options.kind == "word" else normal)
    unknown = UNKNOWN[options.kind]
    frequent = [token for token, count in counts.items() if count >= options.min_frequency]
    kept = sorted(frequent, key=lambda token: (-counts[token], token))[: room - 1]
    if not kept:
        raise UserError(f"no {options.kind} of the text occurs tokenizer.min_frequency={options.min_frequency} times")
    _report(options.kind, counts, kept)
    vocabulary = {token: number for number, token in enumerate((unknown, *kept))}
    if options.kind == "char":
        tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=unknown))
        tokenizer.decoder = decoders.Fuse()
    else:
        tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(SPACES), "removed")
    return tokenizer


def _report(kind: Kind, counts: Counter[str], kept: list[str]) -> None:
    if len(kept) < len(counts):
        share = sum(counts[token] for token in kept) / counts.total()
        logger.info(
            "%d of the text's %d %ss have a token, %.2f %% of its running %ss; the others become unknown",
            len(kept), len(counts), kind, 100 * share, kind,
        )  # fmt: skip
    if kind == "word" and (long := [word for word in counts if len(word) > LONG_WORD]):
        logger.warning(
            "%d 'words' have more than %d characters, the longest %d (%r...); "
            "text without spaces needs tokenizer.kind=bpe or char",
            len(long), LONG_WORD, len(max(long, key=len)), max(long, key=len)[:20],
        )  # fmt: skip
    if len(kept) > HUGE:
        logger.warning(
            "a vocabulary of %d %ss makes that many rows of embeddings and logits at every position; "
            "tokenizer.kind=bpe does with 8,000",
            len(kept), kind,
        )  # fmt: skip
