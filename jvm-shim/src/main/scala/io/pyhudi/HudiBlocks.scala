package io.pyhudi

import scala.collection.mutable

import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.types.StructType

/** The part of a log's block that an executor decodes.
  *
  * @param path Hadoop's text form of the log's path
  * @param at where its first record begins, `length` bytes
  * @param kept the numbers of its rows that count, ascending
  */
private[pyhudi] final case class HudiBlock(
    path: String,
    at: Long,
    length: Int,
    fields: IndexedSeq[HudiAvroField],
    kept: Array[Int])

/** The blocks of one task.
  *
  * @param schema the columns of their rows
  */
private[pyhudi] final case class HudiBlocks(
    blocks: IndexedSeq[HudiBlock],
    schema: StructType)
    extends InputPartition

private[pyhudi] object HudiBlocks {

  /** Reads the plan that Python left in a file, and deletes the file. */
  def parse(name: String, schema: StructType): Array[InputPartition] = {
    val tasks = mutable.SortedMap.empty[Int, mutable.ArrayBuffer[HudiBlock]]
    val known = mutable.Map.empty[String, IndexedSeq[HudiAvroField]]
    HudiArrowFile.read(name) { row =>
      val text = row.text("fields")
      tasks.getOrElseUpdate(row.int("task"), mutable.ArrayBuffer.empty) += HudiBlock(
        row.text("path"),
        row.long("at"),
        row.long("length").toInt,
        known.getOrElseUpdate(text, HudiAvroField.parse(text)),
        HudiMask.numbers(row.bytes("kept").get)
      )
    }
    tasks.valuesIterator.map(each =>
      HudiBlocks(each.toIndexedSeq, schema): InputPartition).toArray
  }
}
