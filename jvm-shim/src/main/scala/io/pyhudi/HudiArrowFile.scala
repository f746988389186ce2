package io.pyhudi

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import scala.collection.JavaConverters._

import org.apache.arrow.memory.RootAllocator
import org.apache.arrow.vector.{
  BigIntVector,
  IntVector,
  VarBinaryVector,
  VarCharVector,
  VectorSchemaRoot
}
import org.apache.arrow.vector.ipc.ArrowStreamReader

/** The row of an Arrow stream at which its reader is. */
private[pyhudi] final class HudiArrowRow(root: VectorSchemaRoot) {

  private val columns = root.getFieldVectors.asScala.map(held => held.getName -> held).toMap
  private var row = 0

  def moveTo(number: Int): Unit = row = number

  def text(column: String): String =
    new String(columns(column).asInstanceOf[VarCharVector].get(row), UTF_8)

  def int(column: String): Int = columns(column).asInstanceOf[IntVector].get(row)

  def long(column: String): Long = columns(column).asInstanceOf[BigIntVector].get(row)

  /** `None` if it is null. */
  def bytes(column: String): Option[Array[Byte]] = {
    val vector = columns(column).asInstanceOf[VarBinaryVector]
    if (vector.isNull(row)) None else Some(vector.get(row))
  }
}

/** A long answer of Python: an Arrow stream in a file. */
private[pyhudi] object HudiArrowFile {

  /** Passes each row to `take`, which must not keep it, and deletes the file. */
  def read(name: String)(take: HudiArrowRow => Unit): Unit = {
    val file = Paths.get(name)
    val allocator = new RootAllocator(Long.MaxValue)
    try {
      val reader = new ArrowStreamReader(Files.newInputStream(file), allocator)
      try {
        val root = reader.getVectorSchemaRoot
        val row = new HudiArrowRow(root)
        while (reader.loadNextBatch())
          (0 until root.getRowCount).foreach { number =>
            row.moveTo(number)
            take(row)
          }
      } finally reader.close()
    } finally {
      allocator.close()
      Files.deleteIfExists(file)
    }
  }
}
