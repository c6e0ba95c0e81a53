"""Secrets kept out of everything that is written: configurations, command lines, logs.

A secret is told by its key (`api_key`, `hf_token`, but not `num_tokens` or `pad_token`), by the environment variable it
was taken from (`${oc.env:HF_TOKEN}`), or by the form that well-known services give their keys.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from relformer.files import write_text

MASK = "***"
SECRETS = ("api_key", "apikey", "access_key", "private_key", "password", "passwd", "passphrase", "secret", "credential")
VOCABULARY = {"pad", "bos", "eos", "unk", "mask", "sep", "cls", "start", "end"}
"""With these words a token is one of a text."""
LEAST = 8
"""Characters of a variable's value below which it is no secret, but might be any word."""
KEYS = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|wandb_v\d+_\w{20,}|sk-[\w-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,})"
)
"""Keys of Hugging Face, W&B, OpenAI and Anthropic, GitHub, GitLab, Slack, AWS and Google, by how they begin."""
OVERRIDE = re.compile(r"[+~]*[\w.@/-]+=")
INLINE = re.compile(r"([\w.-]+)(\s*:\s*)(\"[^\"]*\"|'[^']*'|[^\s,{}\[\]]+)")
"""A key and its value within ``{a: 1, b: [2]}``."""
USER_INFO = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
"""The password in a URL."""


def redact(config: Any) -> Any:
    """A copy of nested containers with ``***`` in place of secrets."""
    if isinstance(config, Mapping):
        return {key: masked(str(key), value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [redact(entry) for entry in config]
    if isinstance(config, str):
        return redact_argument(config) if OVERRIDE.match(config) else redact_text(config)
    return config


def masked(key: str, value: Any) -> Any:
    """The value of a key; what only refers to a secret, ``${oc.env:HF_TOKEN}``, stays."""
    refers = isinstance(value, str) and value.startswith("${")
    return MASK if value is not None and not refers and is_secret(key, value) else redact(value)


def is_secret(key: str, value: Any) -> bool:
    """Goes by the key. Only a text under the whole word is a token: ``hf_token``, not ``num_tokens``."""
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower())
    if any(secret in "_".join(words) for secret in SECRETS):
        return True
    text = isinstance(value, str) and not value.isdigit()
    return "token" in words and text and not VOCABULARY.intersection(words)


def redact_text(text: str) -> str:
    """A text without the values of secret environment variables and without what looks like a service's key."""
    for value in secret_values():
        text = text.replace(value, MASK)
    return USER_INFO.sub(rf"\1:{MASK}", KEYS.sub(MASK, text))


def secret_values() -> list[str]:
    """Of this process's environment, the longest first; paths are none, as of a file that holds a token."""
    found = {
        value
        for name, value in os.environ.items()
        if is_secret(name, value) and len(value) >= LEAST and not value.startswith(("/", "~", "."))
    }
    return sorted(found, key=len, reverse=True)


def redact_argument(argument: str) -> str:
    """A word of a command line, ``+logger.settings.api_key=...``, or a mapping with such keys in it."""
    key, equals, value = argument.partition("=")
    if equals and is_secret(key.rpartition(".")[2], value) and "${" not in value:
        return f"{key}={MASK}"
    return redact_text(INLINE.sub(inline, argument))


def inline(found: re.Match[str]) -> str:
    key, between, value = found.groups()
    return f"{key}{between}{MASK}" if is_secret(key, value) and "${" not in value else found[0]


def redact_yaml(path: Path) -> None:
    """Mask the secrets in a file that Hydra wrote, which is left as it is where it has none."""
    content = OmegaConf.to_container(OmegaConf.load(path))
    if (clean := redact(content)) == content:
        return
    if "hydra" in clean:
        clean["hydra"]["job"]["override_dirname"] = MASK  # all overrides in one text
    write_text(path, OmegaConf.to_yaml(OmegaConf.create(clean)))


def redact_hydra(directory: Path) -> None:
    """What Hydra writes of a run, or of a sweep, before it hands over."""
    for path in (*directory.glob(".hydra/*.yaml"), directory / "multirun.yaml"):
        if path.exists():
            redact_yaml(path)


class Redacted(logging.Filter):
    """Masks secrets in what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if (clean := redact_text(text)) != text:
            record.msg, record.args = clean, None
        return True


@contextmanager
def redacted_command_line() -> Iterator[None]:
    """A masked `sys.argv`, for whoever records it."""
    given = sys.argv
    sys.argv = [redact_argument(argument) for argument in given]
    try:
        yield
    finally:
        sys.argv = given
