package io.pyhudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec

/** Runs Spark's own operator, and answers how many rows its commit changed: one row.
  *
  * A number is null if nobody knows it without reading data.
  */
private[pyhudi] case class HudiCountedExec(
    child: SparkPlan,
    verb: Command,
    override val output: Seq[Attribute])
    extends V2CommandExec
    with UnaryExecNode {

  override protected def run(): Seq[InternalRow] = {
    val changed = HudiCommits.changedBy(child.executeCollect())
    val affected =
      changed.deleted.map(deleted => changed.updated + changed.inserted + deleted)
    val split = Seq(Some(changed.updated), changed.deleted, Some(changed.inserted))
    val told = if (verb == Command.MERGE) affected +: split else Seq(affected)
    Seq(InternalRow.fromSeq(told.map(_.map(Long.box).orNull)))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan =
    copy(child = newChild)
}
