package io.pyhudi

import org.apache.spark.sql.connector.read.{Batch, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.types.StructType

/** An incremental read without a begin, which only a stream can be.
  *
  * Spark asks a table for its columns before it says whether a stream reads it.
  */
private[pyhudi] final case class HudiStreamScan(snapshot: HudiSnapshot, schema: StructType)
    extends Scan {

  override def readSchema(): StructType = schema

  override def description(): String = s"pyhudi stream of ${snapshot.path}"

  override def columnarSupportMode(): Scan.ColumnarSupportMode =
    Scan.ColumnarSupportMode.PARTITION_DEFINED

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new HudiMicroBatchStream(snapshot, schema)

  override def toBatch: Batch = throw new HudiAnalysisException(
    "[CONFIG_ERROR] An incremental read needs hoodie.datasource.read.begin.instanttime: the time " +
      "after which its commits begin, or earliest. Only a stream (readStream) goes without one.",
    "ConfigError"
  )
}

private[pyhudi] final class HudiStreamBuilder(snapshot: HudiSnapshot, schema: StructType)
    extends ScanBuilder {
  override def build(): Scan = HudiStreamScan(snapshot, schema)
}
