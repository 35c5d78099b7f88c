"""Tests that a short run leaves out: ./dev test sets HOLDFAST_SHORT, ./dev test-all has them all."""

import os

import pytest

SHORT = "HOLDFAST_SHORT" in os.environ
long = pytest.mark.skipif(SHORT, reason="./dev test-all has it")


def rest(first, *others):
    """Values of a parameter, of which a short run has the first alone."""
    return [first, *(pytest.param(other, marks=long) for other in others)]
