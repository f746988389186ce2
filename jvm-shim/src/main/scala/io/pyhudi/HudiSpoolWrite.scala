package io.pyhudi

import scala.collection.JavaConverters._

import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.pyhudi.StatementPlans

/** Dynamic partition overwrite: the only INSERT that Spark passes row by row.
  *
  * @param table the table in the statement's plan; the statement is found by it
  */
private[pyhudi] class HudiSpoolWrite(
    target: HudiTarget,
    info: LogicalWriteInfo,
    table: Option[HudiCatalogTable])
    extends Write
    with BatchWrite
    with HudiEvaluated {

  override val place: HudiPlace = target.at(info.options().asCaseSensitiveMap().asScala.toMap)

  private val spool = new HudiSpool(place, info.schema())

  override def description(): String = s"pyhudi overwrite partitions of ${target.table}"

  override def toBatch: BatchWrite = this

  override def createBatchWriterFactory(physical: PhysicalWriteInfo): DataWriterFactory =
    spool.begin()

  override def commit(messages: Array[WriterCommitMessage]): Unit = {
    val statement = table.flatMap(StatementPlans.overwriting)
    val reads = statement.map(HudiOwnReads.of(_, target.path))
    val asked = reads.fold(HudiOwnReads.unknown)(_.question(table.map(_.evaluated)))
    try spool.commit("insert_spooled", statement, messages, asked, "overwrite" -> "dynamic")
    catch {
      case LostRace(lost, waitMs) =>
        Thread.sleep(waitMs)
        val again = for {
          plan <- statement
          written <- table
          fresh <- reads.flatMap(_.now)
          now <- written.now
        } yield StatementPlans.overwriting(plan, fresh, now)
        StatementPlans.run(again.getOrElse(throw lost), description())
    }
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = spool.abort()
}
