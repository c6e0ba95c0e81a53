"""Pipes as files: what can be read only once is copied, since text is read to train tokenizers and again to encode."""

from __future__ import annotations

import os
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path

from relformer.data.text.cache import cache_dir, filled
from relformer.data.text.opening import readable_once
from relformer.errors import UserError


def kept(path: Path) -> Path:
    """The path itself, or for a pipe the path of a copy, named by its content.

    Raises:
        UserError: several processes would read one pipe, or the copy can't be written.
    """
    if not readable_once(path):
        return path
    if int(os.environ.get("LOCAL_RANK", "0")) or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(f"{path} can be read only once, but every device's process reads the data; write it to a file")
    content = blake2b(digest_size=16)
    with filled(cache_dir() / "pipes") as folder, tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
        try:
            with path.open("rb") as pipe:
                while block := pipe.read(1 << 20):
                    content.update(block)
                    copy.write(block)
            copy.close()
            target = folder / content.hexdigest() / path.name
            target.parent.mkdir(exist_ok=True)
            shutil.move(copy.name, target)
        finally:
            Path(copy.name).unlink(missing_ok=True)
    return target
