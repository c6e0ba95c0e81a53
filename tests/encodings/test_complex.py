"""Complex word order against the fixture: each word turns at its own frequencies."""

import torch

from tests.encodings.calls import fixture, make


@torch.no_grad()
def test_a_word_turns_as_in_the_fixture() -> None:
    case = {name.removeprefix("complex."): value for name, value in fixture("oracle_only").items() if "complex" in name}
    encoding = make("complex", heads=1, head_dim=6)
    encoding.omega[3] = case["omega"]  # type: ignore[index,operator]
    word = torch.cat((case["amplitude"] * case["phase"].cos(), case["amplitude"] * case["phase"].sin()))
    found = encoding.embed(word.expand(1, 4, 6), torch.full((1, 4), 3), range(1, 5))[0]
    torch.testing.assert_close(found, torch.cat((case["real_pos1_4"], case["imag_pos1_4"]), -1), rtol=1e-5, atol=1e-6)
