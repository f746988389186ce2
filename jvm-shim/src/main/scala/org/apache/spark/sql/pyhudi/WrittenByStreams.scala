package org.apache.spark.sql.pyhudi

import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback

/** A table of a catalog to which a stream writes by Spark's older interface: only that passes whole
  * batches.
  */
trait WrittenByStreams extends V2TableWithV1Fallback
