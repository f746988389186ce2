package io.pyhudi

import java.util.Locale

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow}
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.pyhudi.{HudiAnalysisException, StatementPlans}
import org.apache.spark.sql.types.{StringType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** UPDATE, DELETE and MERGE: Spark finds the rows that change, and Python commits them.
  *
  * A row is known by its key, its partition and its file. Spark evaluates the statement on the
  * state of `table`, and Python judges conflicts from that state on. Where it finds one the
  * statement is evaluated anew on the state that the other commit has left.
  *
  * @param evaluated how often the statement was evaluated before
  */
private[pyhudi] class HudiRowChanges(
    table: HudiCatalogTable,
    override val command: Command,
    evaluated: Int = 0)
    extends RowLevelOperation
    with SupportsDelta {

  private val verb = command.toString.toLowerCase(Locale.ROOT)

  override def description(): String = s"pyhudi $verb ${table.target.table}"

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    table.newScanBuilder(options)

  override def rowId(): Array[NamedReference] =
    HudiColumns.identity.map(Expressions.column(_): NamedReference).toArray

  override def newWriteBuilder(info: LogicalWriteInfo): DeltaWriteBuilder =
    new DeltaWriteBuilder {
      override def build(): DeltaWrite = new HudiDeltaWrite(info)
    }

  private class HudiDeltaWrite(info: LogicalWriteInfo) extends DeltaWrite with DeltaBatchWrite {

    private val spool = new HudiSpool(
      table.target.request(info.options().asCaseSensitiveMap().asScala.toMap),
      HudiChangeWriter.schema(info.schema()))

    override def description(): String = HudiRowChanges.this.description()

    override def toBatch: DeltaBatchWrite = this

    override def createBatchWriterFactory(physical: PhysicalWriteInfo): DeltaWriterFactory =
      HudiChangeFactory(spool.begin(), info.schema().length)

    override def commit(messages: Array[WriterCommitMessage]): Unit = {
      val statement = StatementPlans.running(HudiRowChanges.this)
      try
        spool.commit(
          "change_rows",
          messages,
          "command" -> verb,
          "scan" -> table.snapshot.question.toMap,
          "evaluated" -> statement.map(_ => evaluated))
      catch { case LostRace(lost, waitMs) => repeat(statement, lost, waitMs) }
    }

    private def repeat(statement: Option[WriteDelta], lost: Throwable, waitMs: Long): Unit = {
      Thread.sleep(waitMs)
      val (plan, now) = statement.zip(table.now).headOption.getOrElse(throw lost)
      val again = new HudiRowChanges(now, command, evaluated + 1)
      StatementPlans.run(StatementPlans.on(plan, table, now, again), description())
    }

    override def abort(messages: Array[WriterCommitMessage]): Unit = spool.abort()
  }
}

/** A commit that came between, in Python's answer, and how long to wait until the next try. */
private[pyhudi] object LostRace {

  def unapply(failure: Throwable): Option[(HudiAnalysisException, Long)] = failure match {
    case ours: HudiAnalysisException => ours.againInMs.map(ours -> _)
    case _ => None
  }
}

private[pyhudi] final case class HudiChangeFactory(spool: HudiSpoolFactory, columns: Int)
    extends DeltaWriterFactory {

  override def createWriter(partition: Int, task: Long): DeltaWriter[InternalRow] =
    new HudiChangeWriter(spool.createWriter(partition, task), columns)
}

/** Spools each change as one row: what kind it is, which row it changes, and the new values. */
private[pyhudi] class HudiChangeWriter(spool: HudiSpoolWriter, columns: Int)
    extends DeltaWriter[InternalRow] {

  private val noRow = new GenericInternalRow(columns)
  private val nobody = new GenericInternalRow(HudiColumns.identity.length)
  private val known = new JoinedRow()
  private val whole = new JoinedRow()

  override def delete(metadata: InternalRow, id: InternalRow): Unit =
    write(HudiChangeWriter.deleted, id, noRow)

  override def update(metadata: InternalRow, id: InternalRow, row: InternalRow): Unit =
    write(HudiChangeWriter.updated, id, row)

  override def insert(row: InternalRow): Unit = write(HudiChangeWriter.inserted, nobody, row)

  private def write(kind: InternalRow, id: InternalRow, row: InternalRow): Unit =
    spool.write(whole(known(kind, id), row))

  override def commit(): WriterCommitMessage = spool.commit()

  override def abort(): Unit = spool.abort()

  override def close(): Unit = spool.close()
}

private[pyhudi] object HudiChangeWriter {

  private val deleted = kind("d")
  private val updated = kind("u")
  private val inserted = kind("i")

  private def kind(letter: String): InternalRow = InternalRow(UTF8String.fromString(letter))

  /** The spool's columns; all of them may be null, as a delete has no values, an insert no row. */
  def schema(values: StructType): StructType = {
    val known = ("_pyhudi_change" +: HudiColumns.identity).map(StructField(_, StringType))
    StructType(known ++ values.fields.map(_.copy(nullable = true)))
  }
}
