package io.pyhudi

import java.io.FileNotFoundException

import scala.util.{Failure, Success, Try}
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** Tells of a data file that is gone or cut off by the time it is read, on executors.
  *
  * The plan was made from a listing that had it. Nothing is asked of the storage before a reader
  * has failed; what failed for another reason stays as it is.
  */
private[pyhudi] final class HudiGuardedReader[T](
    reader: PartitionReader[T],
    files: FilePartition,
    conf: => Configuration)
    extends PartitionReader[T] {

  override def next(): Boolean =
    try reader.next()
    catch {
      case NonFatal(e) =>
        throw files.files.flatMap(HudiDamage.of(_, conf, e)).headOption.getOrElse(e)
    }

  override def get(): T = reader.get()

  override def close(): Unit = reader.close()
}

private[pyhudi] object HudiDamage {

  private val base = """([^_/.][^_/]*)_[^_/]+_(\d{14,20})\.\w+""".r

  /** What is wrong with a file that could not be read; nothing where it is whole. */
  def of(file: PartitionedFile, conf: Configuration, e: Throwable): Option[Throwable] = {
    val path = file.filePath.toPath
    val fs = path.getFileSystem(conf)
    Try(fs.getFileStatus(path).getLen) match {
      case Success(bytes) if bytes < file.fileSize =>
        Some(lost(path, s"has $bytes of its ${file.fileSize} bytes: it was cut off", e))
      case Success(_) => None
      case Failure(_: FileNotFoundException) => Some(gone(fs, path, e))
      case Failure(_) => None
    }
  }

  private def gone(fs: FileSystem, path: Path, e: Throwable): Throwable =
    later(fs, path).fold(lost(path, "is not there", e)) { newer =>
      new HudiAnalysisException(
        s"[HISTORY_EXPIRED] The data file $path was cleaned before the query read it: its file " +
          s"group has $newer by now. Read the table into a new DataFrame, or run the statement " +
          "again. A cleaner that keeps more versions leaves long queries their files.",
        "HistoryExpired",
        Some(e)
      )
    }

  private def lost(path: Path, what: String, e: Throwable): Throwable =
    new HudiAnalysisException(
      s"[TABLE_CORRUPT] The data file $path $what, though the query was planned with it. Nothing " +
        "was changed. Read the table into a new DataFrame: if it was replaced and cleaned " +
        "meanwhile, that shows what it is now. If not, bring the file back from a copy, or set " +
        "the table back to a savepoint or an earlier commit with Apache Hudi.",
      "TableCorrupt",
      Some(e)
    )

  /** A base file of the same group with a greater instant. */
  private def later(fs: FileSystem, path: Path): Option[String] = path.getName match {
    case base(group, instant) =>
      val names = Try(fs.listStatus(path.getParent).map(_.getPath.getName)).getOrElse(Array.empty)
      names.collectFirst { case name @ base(`group`, other) if other > instant => name }
    case _ => None
  }
}
