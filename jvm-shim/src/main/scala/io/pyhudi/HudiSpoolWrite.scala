package io.pyhudi

import scala.collection.JavaConverters._

import org.apache.spark.sql.connector.write._

/** Dynamic partition overwrite: the one INSERT that Spark hands over row by row. */
private[pyhudi] class HudiSpoolWrite(target: HudiTarget, info: LogicalWriteInfo)
    extends Write
    with BatchWrite {

  private val spool =
    new HudiSpool(target.request(info.options().asCaseSensitiveMap().asScala.toMap), info.schema())

  override def description(): String = s"pyhudi overwrite partitions of ${target.table}"

  override def toBatch: BatchWrite = this

  override def createBatchWriterFactory(physical: PhysicalWriteInfo): DataWriterFactory =
    spool.begin()

  override def commit(messages: Array[WriterCommitMessage]): Unit =
    spool.commit("insert_spooled", messages, "overwrite" -> "dynamic")

  override def abort(messages: Array[WriterCommitMessage]): Unit = spool.abort()
}
