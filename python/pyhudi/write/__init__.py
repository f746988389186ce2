"""The write plane: what a Spark worker does with its rows.

Runs in Python workers, where it arrives by value: it imports the standard library, numpy, pyarrow,
``pyhudi.errors`` and the I/O-free modules of ``pyhudi.format``, and nothing that knows the driver.
"""

from __future__ import annotations

import copyreg
import struct


def _struct_parts(form: struct.Struct) -> tuple[type[struct.Struct], tuple[str]]:
    return struct.Struct, (form.format,)


# Modules that travel by value keep compiled struct formats, which Python cannot pickle by itself.
copyreg.pickle(struct.Struct, _struct_parts)
