"""Commands with options of their own say which."""

import pytest

from relformer.cli import WITH_HELP, main


@pytest.mark.parametrize("command", sorted(WITH_HELP - {"train"}))
def test_a_command_shows_its_options_as_they_are_given(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["relformer", command, "--help"])
    monkeypatch.setattr("relformer.cli.flush_denormals", lambda: None)
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().out
    assert end.value.code == 0 and said.startswith(f"usage: relformer {command}")
    options = [line for line in said.splitlines() if line.startswith("  ") and "=" in line]
    assert len(options) >= 2 and not any(line.strip().startswith(("--", "[--")) for line in options)
