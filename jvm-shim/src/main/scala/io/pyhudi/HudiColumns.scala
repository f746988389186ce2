package io.pyhudi

import org.apache.spark.sql.connector.catalog.MetadataColumn
import org.apache.spark.sql.types.{DataType, LongType, StringType, StructField, StructType}

/** The hidden columns of a Hudi table: there when asked for by name, absent from `SELECT *`. */
private[pyhudi] object HudiColumns {

  /** Hudi's own columns, stored in each file (FORMAT.md 3.2). */
  val meta: Seq[String] = Seq(
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name")

  /** Which row of the table one is: its key, its partition path and its file; never null. */
  val identity: Seq[String] =
    Seq("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")

  /** Path of the file that a row came from: a constant that no file stores. */
  val file = "_file"

  /** Number of a row in its file, from 0: no file stores it, Spark's reader counts. */
  val position = "_pos"

  val fileSchema: StructType = StructType(Seq(StructField(file, StringType)))

  def hidden(metaFields: Boolean): Array[MetadataColumn] =
    ((if (metaFields) meta else Nil) ++ Seq(file, position)).map(Hidden(_): MetadataColumn).toArray

  private final case class Hidden(override val name: String) extends MetadataColumn {
    override def dataType: DataType = if (name == position) LongType else StringType
    override def isNullable: Boolean = !identity.contains(name)
  }
}
