package io.pyhudi

import org.apache.spark.sql.connector.catalog.MetadataColumn
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.types._

/** The hidden columns of a Hudi table: a query can name them, but `SELECT *` leaves them out. */
private[pyhudi] object HudiColumns {

  /** The commit that last wrote a row, among Hudi's own columns. */
  final val commitTime = "_hoodie_commit_time"

  /** Hudi's own columns, stored in each file (spec/data_files.md D3). */
  val meta: Seq[String] = Seq(
    commitTime,
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name")

  /** Data columns first, then partition columns: the order of a table in SQL, as in Apache Hudi and
    * Hive, whatever the order in which columns were declared or written.
    */
  def partitionsLast(schema: StructType, partitioning: Seq[String]): StructType = {
    val last = partitioning.flatMap(name => schema.fields.find(_.name.equalsIgnoreCase(name)))
    StructType(schema.fields.filterNot(last.contains) ++ last)
  }

  /** The partitioning by columns or fields of structs. Spark parses their names, and takes letters
    * beyond ASCII in backticks only.
    */
  def byValue(partitioning: Seq[String]): Array[Transform] =
    partitioning.map { path =>
      Expressions.identity(path.split('.').map(name => s"`$name`").mkString(".")): Transform
    }.toArray

  /** The path of a row's file: a constant that no file stores. */
  val file = "_file"

  /** The number of a row in its file, from 0: no file stores it, Spark's reader counts. */
  val position = "_pos"

  /** The number of a row's file in one scan. No column of a table has this name, since names in
    * Hudi have no hyphen.
    */
  val fileNumber = "_file-number"

  /** Whether a column of a table that has this name is one that users cannot set. */
  def isHidden(name: String): Boolean =
    (meta ++ Seq(file, position, fileNumber)).exists(_.equalsIgnoreCase(name))

  /** The identity of a row, for a statement that changes it. Spark sends it through its joins with
    * each row of the table; the number stands for partition and file in four bytes.
    */
  val identity: StructType = new StructType()
    .add("_hoodie_record_key", StringType, nullable = false)
    .add(fileNumber, IntegerType, nullable = false)

  val fileSchema: StructType = StructType(Seq(StructField(file, StringType)))

  def hidden(metaFields: Boolean): Array[MetadataColumn] =
    ((if (metaFields) meta else Nil) ++ Seq(file, position)).map(Hidden(_): MetadataColumn).toArray

  def hiddenFileNumber: MetadataColumn = Hidden(fileNumber)

  private final case class Hidden(override val name: String) extends MetadataColumn {
    override def dataType: DataType = name match {
      case `position` => LongType
      case `fileNumber` => IntegerType
      case _ => StringType
    }
    override def isNullable: Boolean = !identity.fieldNames.contains(name)
    override def comment(): String =
      if (name == fileNumber) "by this UPDATE, DELETE and MERGE find a row's file" else null
  }
}
