package io.pyhudi

import java.io.{File, RandomAccessFile}

import scala.util.control.NonFatal

import org.apache.hadoop.mapreduce.{Job, TaskAttemptContext, TaskAttemptID, TaskID, TaskType}
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.execution.datasources.parquet.{ParquetOptions, ParquetUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/** Rows that Spark passes one by one, stored for a later write by Python.
  *
  * Tasks write plain Parquet files into a folder that Python names. Python reads only the files
  * that the commit messages name.
  */
private[pyhudi] class HudiSpool(place: HudiPlace, schema: StructType) {

  private var folder: Option[String] = None

  def begin(): HudiSpoolFactory = {
    val named = Bridge.ask("spool_begin", place).asText
    folder = Some(named)
    HudiSpoolFactory(named, schema)
  }

  /** Lets Python write the spooled rows by `method`, which also deletes the folder.
    *
    * @param statement the plan that the rows came from, if it is known
    */
  def commit(
      method: String,
      statement: Option[LogicalPlan],
      messages: Array[WriterCommitMessage],
      more: (String, Any)*): Unit = {
    val batch = statement.flatMap(HudiEpoch.in)
    val files = messages.toSeq.collect { case HudiSpoolFile(Some(file)) => file }
    val spooled = Seq("spool" -> folder, "files" -> files, "schema" -> Json.of(schema))
    HudiCommits.ask(method, place.copy(batch = batch), spooled ++ more: _*)
  }

  def abort(): Unit =
    folder.foreach(named => Bridge.ask("spool_abort", place, "spool" -> named))
}

/** A task's answer: the file with its rows; none if it had no rows. */
private[pyhudi] final case class HudiSpoolFile(path: Option[String]) extends WriterCommitMessage

private[pyhudi] final case class HudiSpoolFactory(
    folder: String,
    writers: OutputWriterFactory,
    conf: SerializableConfiguration)
    extends DataWriterFactory {

  override def createWriter(partition: Int, task: Long): HudiSpoolWriter =
    new HudiSpoolWriter(s"$folder/$partition-$task.parquet", this, partition)

  def open(path: String, partition: Int): OutputWriter = {
    val attempt = new TaskAttemptID(new TaskID("pyhudi", 0, TaskType.MAP, partition), 0)
    val context: TaskAttemptContext = new TaskAttemptContextImpl(conf.value, attempt)
    SQLConf.withExistingConf(HudiSpoolFactory.calendar)(writers.newInstance(path, null, context))
  }
}

private[pyhudi] object HudiSpoolFactory {

  // Spark 3.5 refuses to write times before 1900 if the session does not choose a calendar.
  private def calendar: SQLConf = {
    val conf = new SQLConf
    conf.setConfString(SQLConf.PARQUET_REBASE_MODE_IN_WRITE.key, "CORRECTED")
    conf
  }

  def apply(folder: String, schema: StructType): HudiSpoolFactory = {
    val conf = Compat.conf
    val job = Job.getInstance(Compat.newHadoopConf())
    val options = new ParquetOptions(Map.empty[String, String], conf)
    val writers = ParquetUtils.prepareWrite(conf, job, schema, options)
    // Spark's default is INT96, which cannot tell the two kinds of timestamps apart.
    job.getConfiguration.set(SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key, "TIMESTAMP_MICROS")
    HudiSpoolFactory(folder, writers, new SerializableConfiguration(job.getConfiguration))
  }
}

/** Writes the rows of one task attempt. The name contains the attempt, so names never clash. */
private[pyhudi] class HudiSpoolWriter(path: String, factory: HudiSpoolFactory, partition: Int)
    extends DataWriter[InternalRow] {

  private var writer: Option[OutputWriter] = None

  /** The file of `writer`, opened once more, if it is on this machine. */
  private var file: Option[RandomAccessFile] = None

  override def write(row: InternalRow): Unit = {
    if (writer.isEmpty) {
      writer = Some(factory.open(path, partition))
      val local = new File(path.stripPrefix("file:"))
      if (local.exists) file = Some(new RandomAccessFile(local, "rw"))
    }
    writer.get.write(row)
  }

  override def commit(): WriterCommitMessage = {
    writer.foreach(_.close())
    HudiSpoolFile(writer.map(_ => path))
  }

  /** A Parquet writer that has failed leaves its file open. On a full disk an open file keeps its
    * room after it is deleted, which another task's failure may have done already.
    */
  override def abort(): Unit =
    try writer.foreach(_.close())
    catch { case NonFatal(_) if file.nonEmpty => file.foreach(_.setLength(0)) }

  override def close(): Unit = file.foreach(_.close())
}
