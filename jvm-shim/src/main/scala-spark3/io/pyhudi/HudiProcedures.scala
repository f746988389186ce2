package io.pyhudi

/** Procedures of a catalog; Spark 3.5 has none. */
private[pyhudi] trait HudiProcedures
