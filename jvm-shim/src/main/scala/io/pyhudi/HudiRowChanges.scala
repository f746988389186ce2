package io.pyhudi

import java.util.{BitSet, Locale}

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.pyhudi.StatementPlans
import org.apache.spark.sql.types.{StringType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** UPDATE, DELETE and MERGE: Spark finds the rows that change, and Python commits them.
  *
  * A row is identified by its key and the number of its file; Python gets the paths of the files in
  * which rows change. Spark evaluates the statement on the state of `table`, and Python judges
  * conflicts from that state on. After a conflict the statement is evaluated again, on the state
  * after the other commit.
  *
  * @param evaluated how often the statement was evaluated before
  */
private[pyhudi] class HudiRowChanges(
    table: HudiCatalogTable,
    override val command: Command,
    evaluated: Int)
    extends RowLevelOperation
    with SupportsDelta {

  private val numbers = new HudiFileNumbers

  private val verb = command.toString.toLowerCase(Locale.ROOT)

  override def description(): String = s"pyhudi $verb ${table.target.table}"

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new HudiScanBuilder(table.snapshot.under(options), table.schema, Some(numbers))

  override def rowId(): Array[NamedReference] =
    HudiColumns.identity.fieldNames.map(n => Expressions.column(s"`$n`"): NamedReference)

  override def newWriteBuilder(info: LogicalWriteInfo): DeltaWriteBuilder =
    new DeltaWriteBuilder {
      override def build(): DeltaWrite = new HudiDeltaWrite(info)
    }

  private class HudiDeltaWrite(info: LogicalWriteInfo)
      extends DeltaWrite
      with DeltaBatchWrite
      with HudiEvaluated {

    override val place: HudiPlace =
      table.target.at(info.options().asCaseSensitiveMap().asScala.toMap)

    /** The values' places in Spark's rows, which carry hidden columns if the statement has any. */
    private val values = info.schema().fields.indices.filter { i =>
      val column = info.schema().fields(i).name
      table.schema.fieldNames.contains(column) || !HudiColumns.isHidden(column)
    }

    private val written = StructType(values.map(info.schema().fields(_)))

    private val hidden = values.length < info.schema().length

    private val spool = new HudiSpool(place, HudiChangeWriter.schema(written))

    override def description(): String = HudiRowChanges.this.description()

    override def toBatch: DeltaBatchWrite = this

    override def createBatchWriterFactory(physical: PhysicalWriteInfo): DeltaWriterFactory =
      HudiChangeFactory(
        spool.begin(),
        written.length,
        if (hidden) Some(ProjectingInternalRow(written, values)) else None)

    override def commit(messages: Array[WriterCommitMessage]): Unit = {
      val statement = StatementPlans.running(HudiRowChanges.this)
      val changes = messages.collect { case made: HudiChanges => made }
      val named = changes.flatMap(_.files).distinct.sorted.toSeq
      val reads = statement.map(HudiOwnReads.of(_, table.target.path))
        .getOrElse(new HudiOwnReads(Seq(table)))
      val facts = Seq(
        "command" -> verb,
        "homes" -> named.map(number => Seq(number, numbers.path(number))))
      val asked = facts :+ reads.question(statement.map(_ => evaluated))
      try spool.commit("change_rows", statement, changes.map(_.spooled), asked: _*)
      catch { case LostRace(lost, waitMs) => repeat(statement, reads, lost, waitMs) }
    }

    private def repeat(
        statement: Option[LogicalPlan],
        reads: HudiOwnReads,
        lost: Throwable,
        waitMs: Long): Unit = {
      Thread.sleep(waitMs)
      val (plan, fresh) = statement.zip(reads.now).headOption.getOrElse(throw lost)
      val now = fresh.get(table).collect { case known: HudiCatalogTable => known }
        .getOrElse(throw lost)
      val again = HudiRowChanges.on(now, command, evaluated + 1)
      StatementPlans.run(StatementPlans.on(plan, fresh, now, again), description())
    }

    override def abort(messages: Array[WriterCommitMessage]): Unit = spool.abort()
  }
}

private[pyhudi] object HudiRowChanges {

  /** Checks that rows of `table` can be changed; Python keeps its state for the statement. */
  def on(table: HudiCatalogTable, command: Command, evaluated: Int = 0): HudiRowChanges = {
    Bridge.ask("check_row_changes", table.snapshot.place, table.snapshot.question: _*)
    new HudiRowChanges(table, command, evaluated)
  }
}

private[pyhudi] final case class HudiChangeFactory(
    spool: HudiSpoolFactory,
    columns: Int,
    values: Option[ProjectingInternalRow])
    extends DeltaWriterFactory {

  override def createWriter(partition: Int, task: Long): DeltaWriter[InternalRow] =
    new HudiChangeWriter(spool.createWriter(partition, task), columns, values)
}

/** A task's answer: its spool file, and the numbers of the files whose rows change. */
private[pyhudi] final case class HudiChanges(spooled: WriterCommitMessage, files: Array[Int])
    extends WriterCommitMessage

/** Spools each change as one row: its kind, the row that it changes, and the new values.
  *
  * @param values the columns to write of Spark's rows, where those carry more
  */
private[pyhudi] class HudiChangeWriter(
    spool: HudiSpoolWriter,
    columns: Int,
    values: Option[ProjectingInternalRow])
    extends DeltaWriter[InternalRow] {

  private val noRow = new GenericInternalRow(columns)
  private val nobody = new GenericInternalRow(HudiColumns.identity.length)
  private val known = new JoinedRow()
  private val whole = new JoinedRow()
  private val files = new BitSet

  override def delete(metadata: InternalRow, id: InternalRow): Unit =
    change(HudiChangeWriter.deleted, id, noRow)

  override def update(metadata: InternalRow, id: InternalRow, row: InternalRow): Unit =
    change(HudiChangeWriter.updated, id, of(row))

  override def insert(row: InternalRow): Unit =
    write(HudiChangeWriter.inserted, nobody, of(row))

  private def of(row: InternalRow): InternalRow =
    if (values.isEmpty) row
    else {
      values.get.project(row)
      values.get
    }

  private def change(kind: InternalRow, id: InternalRow, row: InternalRow): Unit = {
    files.set(id.getInt(HudiChangeWriter.fileNumber))
    write(kind, id, row)
  }

  private def write(kind: InternalRow, id: InternalRow, row: InternalRow): Unit =
    spool.write(whole(known(kind, id), row))

  override def commit(): WriterCommitMessage =
    HudiChanges(spool.commit(), files.stream().toArray)

  override def abort(): Unit = spool.abort()

  override def close(): Unit = spool.close()
}

private[pyhudi] object HudiChangeWriter {

  private val deleted = kind("d")
  private val updated = kind("u")
  private val inserted = kind("i")

  private val fileNumber = HudiColumns.identity.fieldIndex(HudiColumns.fileNumber)

  private def kind(letter: String): InternalRow = InternalRow(UTF8String.fromString(letter))

  /** The spool's columns; all may be null: a delete has no values, an insert has no old row. */
  def schema(values: StructType): StructType = {
    val known = StructField("_pyhudi_change", StringType) +: HudiColumns.identity.fields
    StructType((known ++ values.fields).map(_.copy(nullable = true)))
  }
}
