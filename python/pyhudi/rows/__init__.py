"""The write plane: what a Spark worker does with its rows.

Runs in Python workers, where it arrives by value: it imports the standard library, numpy, pyarrow,
``pyhudi.errors`` and the I/O-free modules of ``pyhudi.format``, and nothing that knows the driver.
"""
