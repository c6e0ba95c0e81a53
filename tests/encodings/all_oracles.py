"""The oracles of all families."""

from tests.encodings import oracles, oracles_absolute, oracles_bias, oracles_contextual, oracles_rotary

ORACLES = {
    **oracles.ORACLES,
    **oracles_absolute.ORACLES,
    **oracles_bias.ORACLES,
    **oracles_contextual.ORACLES,
    **oracles_rotary.ORACLES,
}
