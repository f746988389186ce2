package org.apache.spark.sql.pyhudi

import java.io.File
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets.US_ASCII
import java.nio.file.{Files, StandardOpenOption}
import java.util.concurrent.TimeUnit

import scala.reflect.ClassTag

import org.apache.spark.{Partition, SparkEnv, TaskContext}
import org.apache.spark.api.java.JavaRDD
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame

/** Write stages whose attempts end only after their Python workers have released them.
  *
  * If a task fails before its worker, Spark 4 ends the attempt while the worker still runs. The
  * worker takes the end of its input for the end of the rows and finishes its file, perhaps after
  * the commit. So each attempt has a file in the executor's local folder. The worker locks the file
  * before it writes anything (`pyhudi/rows/attempt.py`); if the worker dies, the operating system
  * unlocks it. The end of the attempt waits for the lock and deletes the file: a later worker finds
  * no file, and writes nothing.
  */
object HeldAttempts {

  private val Pause = 10L

  def frame(frame: DataFrame): DataFrame =
    Frames.over(frame, new HeldRows(Frames.execution(frame).toRdd))

  def rows(rows: JavaRDD[Array[Byte]]): JavaRDD[Array[Byte]] =
    new JavaRDD(new HeldRows(rows.rdd))

  /** Call it before the attempt's Python workers start. */
  private[pyhudi] def begin(context: TaskContext): Unit = {
    val folder = SparkEnv.get.blockManager.diskBlockManager.localDirs.head
    val file = new File(folder, s"pyhudi-attempt-${context.taskAttemptId()}")
    file.createNewFile()
    // Listeners are called in reverse order: the workers' own listeners have already disconnected.
    context.addTaskCompletionListener[Unit](_ => end(file))
  }

  private def end(file: File): Unit = {
    val patience = SparkEnv.get.conf.getTimeAsMs("spark.python.task.killTimeout", "2s")
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patience)
    val channel = FileChannel.open(file.toPath, StandardOpenOption.WRITE)
    var interrupted = false
    try {
      while (channel.tryLock() == null) {
        if (System.nanoTime() > deadline) kill(file)
        try Thread.sleep(Pause)
        catch { case _: InterruptedException => interrupted = true }
      }
      file.delete()
    } finally {
      // The interrupt is set only here: in an interrupted thread a try would close the channel.
      channel.close()
      if (interrupted) Thread.currentThread().interrupt()
    }
  }

  /** Spark does the same with the worker of a killed task, if it does not end by itself. */
  private def kill(file: File): Unit = {
    val holder = new String(Files.readAllBytes(file.toPath), US_ASCII)
    if (holder.nonEmpty) ProcessHandle.of(holder.toLong).ifPresent { process =>
      process.destroyForcibly()
      ()
    }
  }
}

private final class HeldRows[T: ClassTag](rows: RDD[T]) extends RDD[T](rows) {

  override protected def getPartitions: Array[Partition] = rows.partitions

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    HeldAttempts.begin(context)
    rows.iterator(split, context)
  }
}
