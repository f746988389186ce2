package io.pyhudi

import java.io.FileNotFoundException

import scala.util.{Failure, Success, Try}
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** Reports, on executors, a data file that is missing or cut off when it is read.
  *
  * The plan was made from a listing that had the file. The storage is asked only after a reader has
  * failed; failures with other causes stay as they are.
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

  /** What is wrong with a file that could not be read; nothing if it is whole. */
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

  private def gone(fs: FileSystem, path: Path, e: Throwable): Throwable = {
    val cleaned = later(fs, path).map { newer =>
      s"was cleaned before the query read it: its file group now has $newer. Read the table " +
        "into a new DataFrame, or run the statement again. For long queries let the cleaner keep " +
        "more versions."
    }
    cleaned.orElse(undone(fs, path)).fold(lost(path, "is not there", e)) { why =>
      new HudiAnalysisException(
        s"[HISTORY_EXPIRED] The data file $path $why",
        "HistoryExpired",
        Some(e))
    }
  }

  private def lost(path: Path, what: String, e: Throwable): Throwable =
    new HudiAnalysisException(
      s"[TABLE_CORRUPT] The data file $path $what, though the query was planned with it. Nothing " +
        "was changed. Read the table into a new DataFrame: that works if the file was replaced " +
        "and cleaned meanwhile. If not, restore the file from a copy, or set the table back to a " +
        "savepoint or an earlier commit with Apache Hudi.",
      "TableCorrupt",
      Some(e)
    )

  /** Why a file is gone, if Apache Hudi undoes or has undone the commit that wrote it. */
  private def undone(fs: FileSystem, path: Path): Option[String] = path.getName match {
    case base(_, instant) =>
      val instants = Try(timeline(fs, path)).getOrElse(Nil)
      val commits = instants.collect { case Instant(time, actions(_), null) => time }
      val undoing = instants.collect {
        case Instant(time, action, state) if undoings(action) && time > instant =>
          (time, action, state == null)
      }
      val over = undoing.collect { case (time, action, true) => (time, action) }.toSet
      val pending = undoing.collectFirst {
        case (time, "restore", false) if !over((time, "restore")) => s"restore $time"
      }
      val past = undoing.lastOption.map { case (time, action, _) => s"$action $time" }.filter { _ =>
        !commits.contains(instant) && commits.exists(_ < instant)
      }
      pending.map { restore =>
        s"is gone, since the table is being set back to an earlier state: $restore is pending. " +
          "Read the table into a new DataFrame when it has completed. If the program that ran it " +
          "is dead, let Apache Hudi run it again (rollback_to_savepoint)."
      }.orElse(past.map { by =>
        s"is gone, since $by undid its commit $instant while the query ran. Read the table " +
          "into a new DataFrame, or run the statement again."
      })
    case _ => None
  }

  private val actions = "(commit|replacecommit|deltacommit)".r
  private val undoings = Set("restore", "rollback")

  /** Time, action and state of an instant's file; a completed one has no state. */
  private val Instant = """(\d{14,20})(?:_\d+)?\.([a-z]+)(?:\.([a-z]+))?""".r

  /** The names of the timeline files, ascending, of the table that a data file belongs to. */
  private def timeline(fs: FileSystem, path: Path): Seq[String] = {
    val above = Iterator.iterate(path.getParent)(_.getParent).takeWhile(_ != null)
    val meta = above.map(new Path(_, ".hoodie")).find(fs.exists)
    val folders = meta.toSeq.flatMap(folder => Seq(folder, new Path(folder, "timeline")))
    folders.filter(fs.exists).flatMap(fs.listStatus(_).map(_.getPath.getName)).sorted
  }

  /** A base file of the same group with a larger instant. */
  private def later(fs: FileSystem, path: Path): Option[String] = path.getName match {
    case base(group, instant) =>
      val names = Try(fs.listStatus(path.getParent).map(_.getPath.getName)).getOrElse(Array.empty)
      names.collectFirst { case name @ base(`group`, other) if other > instant => name }
    case _ => None
  }
}
