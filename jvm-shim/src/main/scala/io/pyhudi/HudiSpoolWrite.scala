package io.pyhudi

import scala.collection.JavaConverters._

import org.apache.hadoop.mapreduce.{Job, TaskAttemptContext, TaskAttemptID, TaskID, TaskType}
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.execution.datasources.parquet.{ParquetOptions, ParquetUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/** Dynamic partition overwrite: the one INSERT that Spark hands over row by row.
  *
  * Tasks spool their rows as plain Parquet files into a folder that Python names; Python reads the
  * files that the commit messages name, no other, and runs its usual write over them.
  */
private[pyhudi] class HudiSpoolWrite(target: HudiTarget, info: LogicalWriteInfo)
    extends Write
    with BatchWrite {

  private val request = target.request(info.options().asCaseSensitiveMap().asScala.toMap)
  private var spool: Option[String] = None

  override def description(): String = s"pyhudi overwrite partitions of ${target.table}"

  override def toBatch: BatchWrite = this

  override def createBatchWriterFactory(physical: PhysicalWriteInfo): DataWriterFactory = {
    val folder = Bridge.ask("spool_begin", request: _*).get("spool").asText
    spool = Some(folder)
    HudiSpoolFactory(folder, info.schema())
  }

  override def commit(messages: Array[WriterCommitMessage]): Unit = {
    val files = messages.toSeq.collect { case HudiSpoolFile(Some(file)) => file }
    Bridge.ask(
      "insert_spooled",
      request ++ Seq(
        "spool" -> spool,
        "files" -> files,
        "overwrite" -> "dynamic",
        "schema" -> Json.of(info.schema())): _*)
    ()
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit =
    spool.foreach { folder =>
      Bridge.ask("spool_abort", "path" -> target.path, "spool" -> folder)
    }
}

/** A task's answer: the file that holds its rows, none if it had no rows. */
private[pyhudi] final case class HudiSpoolFile(path: Option[String]) extends WriterCommitMessage

private[pyhudi] final case class HudiSpoolFactory(
    folder: String,
    writers: OutputWriterFactory,
    conf: SerializableConfiguration)
    extends DataWriterFactory {

  override def createWriter(partition: Int, task: Long): DataWriter[InternalRow] =
    new HudiSpoolWriter(s"$folder/$partition-$task.parquet", this, partition)

  def open(path: String, partition: Int): OutputWriter = {
    val attempt = new TaskAttemptID(new TaskID("pyhudi", 0, TaskType.MAP, partition), 0)
    val context: TaskAttemptContext = new TaskAttemptContextImpl(conf.value, attempt)
    writers.newInstance(path, null, context)
  }
}

private[pyhudi] object HudiSpoolFactory {

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

/** Writes one task attempt's rows. The name holds the attempt, so that attempts never meet. */
private[pyhudi] class HudiSpoolWriter(path: String, factory: HudiSpoolFactory, partition: Int)
    extends DataWriter[InternalRow] {

  private var writer: Option[OutputWriter] = None

  override def write(row: InternalRow): Unit = {
    if (writer.isEmpty) writer = Some(factory.open(path, partition))
    writer.get.write(row)
  }

  override def commit(): WriterCommitMessage = {
    writer.foreach(_.close())
    HudiSpoolFile(writer.map(_ => path))
  }

  override def abort(): Unit = writer.foreach(_.close())

  override def close(): Unit = ()
}
