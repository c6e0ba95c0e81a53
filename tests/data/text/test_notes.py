"""Notes say a thing once, and survive a cache."""

import json

from relformer.data.text.notes import Notes


def test_notes_count_and_name_the_first_place() -> None:
    notes = Notes()
    for number in range(1, 1_235):
        notes.count("pair with an empty side left out", f"train.en:{number}", dropped=True)
    notes.count("file with odd line ends", "train.de")
    assert notes.lines() == [
        "1,234 pairs with an empty side left out (first: train.en:1)",
        "1 file with odd line ends (first: train.de)",
    ]
    assert notes.dropped == 1_234


def test_restored_notes_say_the_same_and_count_on() -> None:
    notes = Notes()
    notes.total = 10
    notes.count("pair left out", "a:1", dropped=True)
    restored = Notes.restored(json.loads(json.dumps(notes.state())))
    assert restored.lines() == notes.lines()
    assert (restored.total, restored.dropped) == (10, 1)
    restored.count("pair left out", "a:7", dropped=True)
    assert restored.lines() == ["2 pairs left out (first: a:1)"]
    assert notes.dropped == 1
