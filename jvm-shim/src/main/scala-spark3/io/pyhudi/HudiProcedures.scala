package io.pyhudi

/** Procedures of a catalog, which Spark 3.5 knows none of. */
private[pyhudi] trait HudiProcedures
