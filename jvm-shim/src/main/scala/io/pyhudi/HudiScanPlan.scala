package io.pyhudi

import scala.collection.JavaConverters._
import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.types.StructType

/** One file to read.
  *
  * @param path Hadoop's text form of the path, not percent-encoded
  * @param rows number of rows, -1 if unknown
  * @param schema index into the plan's schemas
  * @param masked which rows do not count, as `HudiMask` takes it
  */
private[pyhudi] final case class HudiFile(
    path: String,
    size: Long,
    rows: Long,
    schema: Int,
    masked: Option[Array[Byte]] = None) {

  /** Its schema, and whether some rows do not count. */
  def kind: (Int, Boolean) = (schema, masked.isDefined)

  def folder: String = path.substring(0, path.lastIndexOf('/'))
}

/** The files that Python chose for a scan, with the schemas in which they were written.
  *
  * @param pruned number of files of the same state that Python left out
  * @param logRows the number of rows that come from log files of `logBytes`
  * @param logHomes a file of each slice with such rows, if a statement numbers files
  * @param kinds of its files, also of those that were left out later
  */
private[pyhudi] final case class HudiScanPlan(
    schemas: IndexedSeq[StructType],
    files: IndexedSeq[HudiFile],
    pruned: Long,
    logRows: Long,
    logBytes: Long,
    logHomes: IndexedSeq[String],
    kinds: Set[(Int, Boolean)]) {

  /** The same plan with only the files at `paths`; the readers of one plan can read the other's. */
  def only(paths: Set[String]): HudiScanPlan = {
    val left = files.filter(file => paths(file.path))
    copy(files = left, pruned = pruned + files.size - left.size)
  }

  lazy val sizeInBytes: Long = files.iterator.map(_.size).sum

  /** The rows of all files before any filter; `None` if the count of one file is unknown. */
  lazy val rows: Option[Long] =
    if (files.forall(_.rows >= 0)) Some(files.iterator.map(_.rows).sum + logRows) else None
}

private[pyhudi] object HudiScanPlan {

  def parse(answer: JsonNode): HudiScanPlan = {
    val schemas = answer.get("schemas").elements().asScala.map(Json.toStruct).toIndexedSeq
    val files = Json.some(answer.get("arrow_file")) match {
      case Some(file) => fromArrow(file.asText)
      case None => answer.get("files").elements().asScala.map(fromJson).toIndexedSeq
    }
    HudiScanPlan(
      schemas,
      files,
      answer.get("pruned").asLong,
      answer.get("log_rows").asLong,
      answer.get("log_bytes").asLong,
      answer.get("log_homes").elements().asScala.map(_.asText).toIndexedSeq,
      files.iterator.map(_.kind).toSet
    )
  }

  private def fromJson(row: JsonNode): HudiFile =
    HudiFile(row.get(0).asText, row.get(1).asLong, row.get(2).asLong, row.get(3).asInt)

  /** Reads a long plan from the Arrow stream that Python left in a file, and deletes the file. */
  private def fromArrow(name: String): IndexedSeq[HudiFile] = {
    val files = ArrayBuffer.empty[HudiFile]
    HudiArrowFile.read(name) { row =>
      files += HudiFile(
        row.text("path"),
        row.long("size"),
        row.long("rows"),
        row.int("schema"),
        row.bytes("masked"))
    }
    files.toIndexedSeq
  }
}
