"""Tables in memory, as the transactions' tests have them."""

from __future__ import annotations

from tests.transactions.conftest import new_world

__all__ = ["new_world"]
