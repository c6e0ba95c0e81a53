"""Which charsets can be read line by line, and a guess at the charset of bytes that don't decode."""

from __future__ import annotations

import codecs

from relformer.errors import OptionError

FOREIGN_SHARE = 0.5
"""In western text well under half of the letters lie beyond ASCII; in Cyrillic, Greek or East Asian text most do."""


def checked(charset: str) -> str:
    """The codec's canonical name; ``utf-8`` for ``utf-8-sig``, whose mark is dropped anyhow.

    Raises:
        OptionError: no such charset, or one whose line ends are not the byte 0x0A (UTF-16, EBCDIC).
    """
    try:
        codec = codecs.lookup(charset).name
        codec = "utf-8" if codec == "utf-8-sig" else codec
        by_lines = "a\n".encode(codec) == b"a\n" and codec != "hz"  # hz joins lines that end in a tilde
    except (LookupError, UnicodeError, ValueError):
        raise OptionError(
            "charset", charset, "is no text charset of Python's; usual are utf-8 and cp1252", "data"
        ) from None
    if not by_lines:
        raise OptionError(
            "charset", charset, "can't be read line by line; convert the files to utf-8 first (iconv)", "data"
        )
    return codec


def remedy(sample: bytes, charset: str) -> str:
    """What to do about bytes that `charset` can't decode, judged by the text around them."""
    if charset != "utf-8":
        return "the text is valid utf-8; leave data.charset out" if _is_utf8(sample) else "pass the right data.charset"
    if looks_like_utf16(sample):
        return "it looks like UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"
    broken = sample.decode("utf-8", "replace").count("\ufffd")
    if sum(not character.isascii() for character in sample.decode("utf-8", "ignore")) >= broken:
        return "the text around it is utf-8, so the line is damaged: mend it"
    high = sum(byte >= 0x80 for byte in sample)
    letters = high + sum(chr(byte).isalpha() for byte in sample if byte < 0x80)
    if high >= 8 and high > FOREIGN_SHARE * letters:
        return "it looks like a charset that is not western (cp1251, gb18030, shift_jis, ...); pass it as data.charset"
    if not any(0x80 <= byte < 0xA0 for byte in sample):
        return "it looks like latin-1 (cp1252 is the same here); pass data.charset=cp1252"
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return "it is none of utf-8, latin-1 and cp1252; find its charset out and pass it as data.charset"
    return "it looks like cp1252; pass data.charset=cp1252"


def looks_like_utf16(sample: bytes) -> bool:
    """Whether about every second byte is NUL, as in UTF-16 text of ASCII letters."""
    return sample.count(0) > 0.3 * len(sample)


def looks_like_utf8(sample: bytes) -> bool:
    """Whether a sample holds characters beyond ASCII, and all of them decode as UTF-8."""
    return not sample.isascii() and _is_utf8(sample)


def _is_utf8(sample: bytes) -> bool:
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
