package io.pyhudi

import java.time.LocalDate
import java.util
import java.util.{Collections, Objects}

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Cast, Literal}
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, DateTimeUtils}
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement
import org.apache.spark.sql.pyhudi.{CatalogEntries, HudiAnalysisException}
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** SHOW PARTITIONS and ALTER TABLE DROP PARTITION. A partition exists through its rows: it cannot
  * be added without rows, and it has no metadata of its own.
  */
private[pyhudi] trait HudiPartitions extends SupportsAtomicPartitionManagement {

  def target: HudiTarget
  def snapshot: HudiSnapshot

  override def partitionSchema(): StructType =
    StructType(snapshot.partitioning.map(snapshot.schema(_)))

  override def listPartitionIdentifiers(
      names: Array[String],
      values: InternalRow): Array[InternalRow] = matching(names, values).map(_._2).toArray

  /** The folders of all partitions. */
  def folders: Seq[String] =
    if (partitionSchema().isEmpty) Nil else all(partitionSchema()).map(_._1)

  /** The folders of the partitions with these values. */
  def foldersOf(names: Array[String], values: InternalRow): Seq[String] =
    matching(names, values).map(_._1)

  private def matching(names: Array[String], values: InternalRow): Seq[(String, InternalRow)] = {
    val columns = partitionSchema()
    val wanted = names.zipWithIndex.map { case (name, at) =>
      val index = columns.fieldIndex(name)
      index -> padded(name, values.get(at, columns(index).dataType))
    }
    all(columns).filter { case (_, row) =>
      wanted.forall { case (at, value) =>
        val own = row.get(at, columns(at).dataType)
        own == value || Objects.equals(own, value) // 0.0 and -0.0, and NaN and itself
      }
    }
  }

  /** Each partition's folder and values. */
  private def all(columns: StructType): Seq[(String, InternalRow)] = {
    val zone = Some(Compat.conf.sessionLocalTimeZone)
    val found = Bridge.ask("partition_values", snapshot.place, snapshot.question: _*)
    found.elements().asScala.map { partition =>
      val texts = partition.get("values").elements().asScala.toSeq
      val values = columns.fields.toSeq.zip(texts).map {
        case (_, text) if text.isNull => null
        // Key generators write times as microseconds.
        case (column, text)
            if moments(column.dataType) && text.asText.matches("-?\\d+") => text.asText.toLong
        case (column, text) => Cast(Literal(text.asText), column.dataType, zone).eval()
      }
      partition.get("path").asText -> InternalRow.fromSeq(values)
    }.toList
  }

  /** A value of a CHAR column as its rows have it: with spaces at its end. */
  private def padded(column: String, value: Any): Any =
    (CharVarcharUtils.getRawType(CatalogEntries.schema(columns())(column).metadata), value) match {
      case (Some(char: CharType), text: UTF8String) if text.numChars < char.length =>
        text.rpad(char.length, UTF8String.fromString(" "))
      case _ => value
    }

  private val moments = Set[DataType](TimestampType, TimestampNTZType)

  override def dropPartition(ident: InternalRow): Boolean = dropPartitions(Array(ident))

  /** One replace commit for all of them; false, and nothing is done, if one does not exist. */
  override def dropPartitions(idents: Array[InternalRow]): Boolean = {
    val names = partitionSchema().fieldNames
    val there = idents.forall(listPartitionIdentifiers(names, _).nonEmpty)
    if (there && idents.nonEmpty) {
      val doomed = Seq(HudiFilters.told(idents.map(condition).reduce[Filter](Or(_, _))))
      HudiCommits.ask("delete_where", target.place, "filters" -> doomed)
    }
    there
  }

  override def truncatePartition(ident: InternalRow): Boolean = {
    if (!dropPartition(ident)) {
      val columns = partitionSchema().fields
      val said = columns.zipWithIndex.map { case (column, at) =>
        s"${column.name} = ${ident.get(at, column.dataType)}"
      }
      throw new HudiAnalysisException(
        s"[PARTITIONS_NOT_FOUND] ${target.table} has no partition (${said.mkString(", ")}), so " +
          s"nothing was changed: SHOW PARTITIONS ${target.table} lists those that there are.",
        "ConfigError"
      )
    }
    true
  }

  /** Spark asks for several only if the statement names a part of the columns. */
  override def truncatePartitions(idents: Array[InternalRow]): Boolean =
    throw new HudiAnalysisException(
      s"[CONFIG_ERROR] PARTITION must name all partition columns of ${target.table}: " +
        s"${partitionSchema().fieldNames.mkString(", ")}. Nothing was changed. To delete the " +
        "rows of several partitions, use DELETE FROM with a condition.",
      "ConfigError"
    )

  private def condition(ident: InternalRow): Filter =
    partitionSchema().fields.zipWithIndex.map { case (column, at) =>
      if (ident.isNullAt(at)) IsNull(column.name)
      else {
        val value = padded(column.name, ident.get(at, column.dataType))
        EqualTo(column.name, literal(value, column.dataType)): Filter
      }
    }.reduce[Filter](And(_, _))

  /** Days by the calendar of today: that of `java.sql` lacks ten of the year 1582. */
  private def literal(value: Any, kind: DataType): Any = (kind, value) match {
    case (DateType, day: Int) => LocalDate.ofEpochDay(day)
    case (TimestampType, micros: Long) => DateTimeUtils.microsToInstant(micros)
    case _ => CatalystTypeConverters.convertToScala(value, kind)
  }

  override def createPartitions(
      idents: Array[InternalRow],
      properties: Array[util.Map[String, String]]): Unit =
    throw unserved("a partition comes with its first row: write a row")

  override def replacePartitionMetadata(
      ident: InternalRow,
      properties: util.Map[String, String]): Unit =
    throw unserved("partitions have no metadata of their own")

  override def loadPartitionMetadata(ident: InternalRow): util.Map[String, String] =
    Collections.emptyMap()

  private def unserved(text: String) =
    new HudiAnalysisException(s"[UNSUPPORTED_TABLE] ${target.table}: $text.", "UnsupportedTable")
}
