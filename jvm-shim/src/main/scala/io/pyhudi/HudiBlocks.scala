package io.pyhudi

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable

import org.apache.arrow.memory.RootAllocator
import org.apache.arrow.vector.{BigIntVector, IntVector, VarBinaryVector, VarCharVector}
import org.apache.arrow.vector.ipc.ArrowStreamReader
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/** A block of a log file whose rows an executor decodes.
  *
  * @param path Hadoop's text form of the log's path
  * @param at where its content begins, `length` bytes
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
    schema: StructType,
    conf: Broadcast[SerializableConfiguration])
    extends InputPartition

private[pyhudi] object HudiBlocks {

  /** Reads the plan that Python left in a file, and deletes the file. */
  def parse(name: String, schema: StructType): Array[InputPartition] = {
    val conf = Compat.activeSession.sparkContext.broadcast(
      new SerializableConfiguration(Compat.newHadoopConf()))
    val tasks = mutable.SortedMap.empty[Int, mutable.ArrayBuffer[HudiBlock]]
    val known = mutable.Map.empty[String, IndexedSeq[HudiAvroField]]
    val file = Paths.get(name)
    val allocator = new RootAllocator(Long.MaxValue)
    try {
      val reader = new ArrowStreamReader(Files.newInputStream(file), allocator)
      try {
        val root = reader.getVectorSchemaRoot
        while (reader.loadNextBatch()) {
          val task = root.getVector("task").asInstanceOf[IntVector]
          val paths = root.getVector("path").asInstanceOf[VarCharVector]
          val at = root.getVector("at").asInstanceOf[BigIntVector]
          val lengths = root.getVector("length").asInstanceOf[BigIntVector]
          val fields = root.getVector("fields").asInstanceOf[VarCharVector]
          val kept = root.getVector("kept").asInstanceOf[VarBinaryVector]
          (0 until root.getRowCount).foreach { i =>
            val text = new String(fields.get(i), UTF_8)
            tasks.getOrElseUpdate(task.get(i), mutable.ArrayBuffer.empty) += HudiBlock(
              new String(paths.get(i), UTF_8),
              at.get(i),
              lengths.get(i).toInt,
              known.getOrElseUpdate(text, HudiAvroField.parse(text)),
              numbers(kept.get(i)))
          }
        }
      } finally reader.close()
    } finally {
      allocator.close()
      Files.deleteIfExists(file)
    }
    tasks.valuesIterator.map(each =>
      HudiBlocks(each.toIndexedSeq, schema, conf): InputPartition).toArray
  }

  private def numbers(bytes: Array[Byte]): Array[Int] = {
    val found = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer
    val numbers = new Array[Int](found.remaining)
    found.get(numbers)
    numbers
  }
}
