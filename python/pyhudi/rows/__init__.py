"""The write plane: the work of a Spark worker on its rows.

It is sent to Python workers by value. So it imports only the standard library, numpy, pyarrow,
``pyhudi.errors`` and the modules of ``pyhudi.format``, which do no I/O; nothing of the driver.
"""
