package io.pyhudi

/** CREATE TABLE ... LIKE, which these lines do not hand to a catalog: see [[HudiStatements]]. */
private[pyhudi] trait TablesLike
