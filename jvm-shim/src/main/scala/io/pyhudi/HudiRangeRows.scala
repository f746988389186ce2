package io.pyhudi

import scala.collection.JavaConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.sources.{Filter, GreaterThan, In, Or}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/** The rows of an incremental read among those of its files: rows of the commits, and of every
  * commit with a later time than `above`.
  *
  * Spark never sees the other rows: nothing above the scan can drop them, since a session may lack
  * pyhudi's extension. So the reader itself filters.
  */
private[pyhudi] final case class HudiRangeRows(commits: Seq[String], above: Option[String]) {

  /** For the statistics of row groups and pages. */
  def filter: Filter = {
    val named = In(HudiColumns.commitTime, commits.toArray[Any])
    above.fold(named: Filter)(time => Or(named, GreaterThan(HudiColumns.commitTime, time)))
  }

  /** Only the rows that count.
    *
    * @param read the columns of `reader`, with that of the commit's time
    * @param wanted the columns to give, in the same order
    */
  def among(
      reader: PartitionReader[InternalRow],
      read: StructType,
      wanted: StructType): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
      private val at = read.fieldIndex(HudiColumns.commitTime)
      private val known = new java.util.HashSet(commits.map(UTF8String.fromString).asJava)
      private val least = above.map(UTF8String.fromString)
      private val narrowed =
        if (read.length == wanted.length) None
        else Some(ProjectingInternalRow(wanted, read.indices.filter(_ != at)))

      // Neighbours often come from one commit.
      private var last: UTF8String = _
      private var counted = false

      override def next(): Boolean = {
        while (reader.next()) if (counts(reader.get())) return true
        false
      }

      private def counts(row: InternalRow): Boolean =
        !row.isNullAt(at) && {
          val time = row.getUTF8String(at)
          if (last == null || time != last) {
            last = time.clone()
            counted = known.contains(last) || least.exists(last.compareTo(_) > 0)
          }
          counted
        }

      override def get(): InternalRow = {
        val row = reader.get()
        narrowed.fold(row) { fewer =>
          fewer.project(row)
          fewer
        }
      }

      override def close(): Unit = reader.close()
    }
}

private[pyhudi] object HudiRangeRows {

  def parse(answer: JsonNode): HudiRangeRows = HudiRangeRows(
    HudiSnapshot.texts(answer.get("commits")),
    Json.some(answer.get("above")).map(_.asText))
}
