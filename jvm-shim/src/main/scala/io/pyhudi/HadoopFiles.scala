package io.pyhudi

import java.io.{FileNotFoundException, IOException}
import java.net.URI
import java.util.concurrent.{Callable, ExecutionException, Executors}

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.security.AccessControlException

/** One table's folder on a file system that Hadoop's client reaches, for Python's storage.
  *
  * Each operation of Python is one call, with listings and names as JSON: a round trip costs more
  * than most of these calls. Paths are relative to the table, with `/` between the parts.
  *
  * A file gets its name by a rename from a temporary name, so no file is ever visible with only a
  * part of its bytes. The temporary file also shows the outcome of a rename that got no answer: if
  * it can still be deleted, the rename will never happen; if it is gone, the rename has happened.
  *
  * Hadoop's clients refuse a thread that is interrupted, and Spark cancels a statement by an
  * interrupt: each operation runs [[Uninterrupted]], or a cancelled write could not be undone.
  */
final class HadoopFiles private (
    fs: FileSystem,
    context: Option[FileContext],
    val authority: String,
    base: String) {

  import HadoopFiles._

  /** `[path, bytes, epoch milliseconds]` of the files in `folder`, at any depth if `deep`. */
  def list(folder: String, deep: Boolean): String = Uninterrupted {
    val found = ArrayBuffer.empty[Seq[Any]]
    val waiting = ArrayBuffer(folder)
    while (waiting.nonEmpty) {
      entries(waiting.remove(waiting.size - 1)).foreach { entry =>
        if (!entry.isDirectory) {
          found += Seq(relative(entry), entry.getLen, entry.getModificationTime)
        } else if (deep) waiting += relative(entry)
      }
    }
    Json.render(found)
  }

  /** The paths of the folders directly in `folder`. */
  def folders(folder: String): String = Uninterrupted {
    Json.render(entries(folder).filter(_.isDirectory).map(relative))
  }

  def exists(path: String): Boolean = Uninterrupted(status(at(path)).exists(_.isFile))

  /** @throws FileNotFoundException if there is no such file */
  def read(path: String): Array[Byte] = Uninterrupted {
    val found = status(at(path)).filter(_.isFile)
      .getOrElse(throw new FileNotFoundException(at(path).toString))
    val data = new Array[Byte](found.getLen.toInt)
    val in = fs.open(found.getPath)
    try in.readFully(0, data)
    finally in.close()
    data
  }

  /** @throws Taken if the name is taken
    * @throws NoAnswer if it is unknown whether the file was made
    */
  def create(path: String, temporary: String, data: Array[Byte]): Unit = Uninterrupted {
    val target = at(path)
    inTurn(target) {
      if (status(target).isDefined) throw new Taken(target)
      write(at(temporary), data)
      move(at(temporary), target) {
        context match {
          case Some(files) => files.rename(at(temporary), target, Options.Rename.NONE)
          case None => if (!fs.rename(at(temporary), target)) throw new Taken(target)
        }
      }
    }
  }

  /** @throws NoAnswer if it is unknown whether the file was replaced */
  def replace(path: String, temporary: String, data: Array[Byte]): Unit = Uninterrupted {
    val target = at(path)
    write(at(temporary), data)
    move(at(temporary), target) {
      context match {
        case Some(files) => files.rename(at(temporary), target, Options.Rename.OVERWRITE)
        // Without Hadoop's newer interface some file systems replace, others need a delete first.
        case None if fs.rename(at(temporary), target) =>
        case None =>
          fs.delete(target, false)
          if (!fs.rename(at(temporary), target)) throw new IOException(s"no rename to $target")
      }
    }
  }

  /** Deletes the files of a JSON list, several at a time; an absent file is no error. */
  def delete(paths: String): Unit = Uninterrupted {
    val targets = texts(Json.parse(paths)).map(at)
    if (targets.size <= Deleters) targets.foreach(delete)
    else {
      val pool = Executors.newFixedThreadPool(Deleters)
      try {
        val running = targets.map(target =>
          pool.submit(new Callable[Unit] { override def call(): Unit = delete(target) }))
        running.foreach(_.get())
      } catch {
        case e: ExecutionException => throw e.getCause
      } finally pool.shutdownNow()
    }
  }

  /** Deletes a folder with everything below it; an absent folder is no error. */
  def deleteFolder(folder: String): Unit = Uninterrupted {
    try fs.delete(at(folder), true)
    catch { case Absent() => }
  }

  def deleteEmptyFolders(folder: String): Unit = Uninterrupted {
    deleteIfEmpty(at(folder))
    ()
  }

  private def deleteIfEmpty(folder: Path): Boolean =
    try {
      val (folders, files) = fs.listStatus(folder).toSeq.partition(_.isDirectory)
      // Each folder is tried, even if another one is not empty.
      val empty = folders.map(inner => deleteIfEmpty(inner.getPath)).forall(identity)
      empty && files.isEmpty && fs.delete(folder, false)
    } catch {
      case Absent() => true
      case _: PathIsNotEmptyDirectoryException => false
    }

  private def delete(target: Path): Unit =
    try fs.delete(target, false)
    catch {
      case Absent() =>
      // The answer of HDFS for a name below a file.
      case _: AccessControlException if status(target).isEmpty =>
    }

  // Without a scheme: this file system is meant, whatever its own scheme is.
  private def at(path: String): Path = new Path(if (path.isEmpty) base else below + path)

  private def below: String = if (base == "/") base else base + "/"

  private def relative(entry: FileStatus): String =
    entry.getPath.toUri.getPath.substring(below.length)

  private def status(path: Path): Option[FileStatus] =
    try Some(fs.getFileStatus(path))
    catch { case Absent() => None }

  /** The entries directly in a folder; none for a file or an absent folder. */
  private def entries(folder: String): Seq[FileStatus] = {
    val path = at(folder)
    val found = ArrayBuffer.empty[FileStatus]
    try {
      val pages = fs.listStatusIterator(path)
      while (pages.hasNext) found += pages.next()
    } catch { case Absent() => }
    found.filter(_.getPath.toUri.getPath != path.toUri.getPath).toSeq
  }

  private def write(file: Path, data: Array[Byte]): Unit = {
    val out = fs.create(file, false)
    try {
      try {
        out.write(data)
        if (data.nonEmpty && out.hasCapability(StreamCapabilities.HSYNC)) out.hsync()
      } finally out.close()
    } catch {
      case e: IOException =>
        try fs.delete(file, false)
        catch { case _: IOException => }
        throw e
    }
  }

  private def move(source: Path, target: Path)(rename: => Unit): Unit =
    try rename
    catch {
      case e: IOException =>
        val landed =
          try !fs.delete(source, false) && status(target).isDefined
          catch { case _: IOException => throw new NoAnswer(target, e) }
        if (!landed) throw e match {
          case _: FileAlreadyExistsException => new Taken(target)
          case other => other
        }
    }
}

object HadoopFiles {

  private val Deleters = 8
  private val turns = Array.fill(64)(new Object)

  /** The name of a new file is already taken. */
  final class Taken(target: Path) extends IOException(s"$target exists already")

  /** A request that may or may not have had its effect. */
  final class NoAnswer(target: Path, cause: IOException)
      extends IOException(s"no answer about $target: ${cause.getMessage}", cause)

  /** Exceptions of file systems for a name that does not exist, or lies below a file. */
  private object Absent {
    def unapply(cause: IOException): Boolean = cause match {
      case _: FileNotFoundException | _: ParentNotDirectoryException => true
      case _ => false
    }
  }

  /** The folder `uri`, with its scheme; nothing is read or made yet. */
  def open(uri: String, conf: Configuration): HadoopFiles = {
    val asked = new Path(uri).toUri
    val fs = FileSystem.get(asked, conf)
    // `hdfs:///t` is a place on the default cluster; only the file system knows its name.
    val named = if (asked.getScheme == fs.getUri.getScheme) fs.getUri else asked
    val authority = Option(asked.getAuthority).orElse(Option(named.getAuthority)).getOrElse("")
    new HadoopFiles(fs, contextOf(asked, conf), authority, asked.getPath)
  }

  /** `path` as Hadoop reads it: without a scheme it lies on the default file system. */
  def qualified(path: String, conf: Configuration): String = {
    val default = FileSystem.getDefaultUri(conf)
    if (!path.startsWith("/") || default.getScheme == "file") path
    else new Path(path).makeQualified(default, new Path("/")).toString
  }

  // Its renames are as atomic as the file system's; the older interface does not promise that.
  private def contextOf(uri: URI, conf: Configuration): Option[FileContext] =
    try Some(FileContext.getFileContext(uri, conf))
    catch { case _: UnsupportedFileSystemException => None }

  private def texts(list: JsonNode): Seq[String] = {
    val found = ArrayBuffer.empty[String]
    list.elements().forEachRemaining(text => found += text.asText)
    found.toSeq
  }

  /** Not every file system refuses a taken name; at least threads of one JVM take turns. */
  private def inTurn[T](target: Path)(act: => T): T =
    turns(Math.floorMod(target.hashCode, turns.length)).synchronized(act)
}
