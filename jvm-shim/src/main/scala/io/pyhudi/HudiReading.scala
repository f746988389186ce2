package io.pyhudi

import org.apache.hadoop.conf.Configuration
import org.apache.parquet.hadoop.ParquetInputFormat
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.execution.WholeStageCodegenExec
import org.apache.spark.sql.execution.datasources.parquet.{
  ParquetFileFormat,
  ParquetOptions,
  ParquetReadSupport,
  ParquetUtils,
  ParquetWriteSupport
}
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types._
import org.apache.spark.util.SerializableConfiguration

/** How a scan reads: which columns, in which order, and how files of older schemas fit in.
  *
  * The result has the files' columns, then the constants. A column that a file lacks is also
  * requested, since Spark's reader fills nullable columns with null. A column with another type in
  * the file is read in that type and cast afterwards, since Spark 3.5 and 4.0 differ in what their
  * readers widen. A column with another name in the file is requested by that name.
  *
  * @param changed the rows that count in an incremental read, which has no batches
  * @param surplus whether the last stored column is the commit's time, needed for `changed` alone
  */
private[pyhudi] final case class HudiReading(
    stored: StructType,
    constants: StructType,
    filters: Seq[Filter],
    changed: Option[HudiRangeRows] = None,
    surplus: Boolean = false) {

  /** The columns that the readers of files give. */
  val read: StructType = StructType(stored.fields ++ constants.fields)

  /** The columns that the query asks for. */
  val schema: StructType = if (surplus) StructType(stored.fields.init ++ constants.fields) else read

  /** Whether batches are possible; this must be the same for all partitions of a scan. */
  lazy val columnar: Boolean = {
    val conf = Compat.conf
    changed.isEmpty && ParquetUtils.isBatchReadSupportedForSchema(conf, schema) &&
    conf.wholeStageEnabled &&
    !WholeStageCodegenExec.isTooManyFields(conf, schema)
  }

  /** The columns to request from files, each with the indices of those schemas of the plan that
    * have the same request. Input partitions number them in this order.
    */
  def physicalSchemas(plan: HudiScanPlan): IndexedSeq[(StructType, Set[Int])] = {
    val used = plan.kinds.map(_._1).toIndexedSeq.sorted
    val physical = used.map(index => HudiReading.inFile(stored, plan.schemas(index)) -> index)
    physical.map(_._1).distinct.map { schema =>
      schema -> physical.collect { case (`schema`, index) => index }.toSet
    }
  }

  /** Spark's own Parquet reader for files with the columns `physical`. */
  def parquetReader(physical: StructType): ParquetPartitionReaderFactory = {
    val conf = Compat.conf
    val cast = stored.fields.zip(physical.fields).collect {
      case (wanted, held) if wanted.dataType != held.dataType || wanted.name != held.name =>
        wanted.name
    }.toSet
    // Statistics of another type cannot be compared with a literal of the table's type, and a file
    // may use the table's name for another column.
    val pushed = (filters ++ changed.map(_.filter)).filter { f =>
      !f.references.exists(r => cast(r.split('.').head)) && !HudiReading.misjudged(f) &&
      !HudiReading.literals(f).exists(HudiFilters.isVague)
    }
    ParquetPartitionReaderFactory(
      conf,
      HudiReading.broadcast(HudiReading.hadoopConf(physical, conf)),
      physical,
      physical,
      constants,
      pushed.toArray,
      None,
      new ParquetOptions(HudiReading.settings, conf)
    )
  }
}

private[pyhudi] object HudiReading {

  // Hudi's files are written in the proleptic Gregorian calendar; without this Spark 3.5 refuses
  // dates before 1582 in files that do not name their Spark version. A table's files must exist: a
  // lost or cut-off file is an error, never fewer rows, whatever the session's settings are.
  private val settings = Map(
    ParquetOptions.DATETIME_REBASE_MODE -> "CORRECTED",
    ParquetOptions.INT96_REBASE_MODE -> "CORRECTED",
    FileSourceOptions.IGNORE_MISSING_FILES -> "false",
    FileSourceOptions.IGNORE_CORRUPT_FILES -> "false"
  )

  /** Whether statistics of floats may exclude rows that the filter accepts: -0.0 = 0.0 in SQL but
    * not in Parquet, and NaN, in SQL greater than every number, is in no minimum or maximum.
    */
  private def misjudged(filter: Filter): Boolean = filter match {
    case And(left, right) => misjudged(left) || misjudged(right)
    case Or(left, right) => misjudged(left) || misjudged(right)
    case Not(child) => literals(child).exists(isFloat)
    case GreaterThan(_, value) => isFloat(value)
    case GreaterThanOrEqual(_, value) => isFloat(value)
    case other => literals(other).exists(isZeroOrNaN)
  }

  def literals(filter: Filter): Seq[Any] = filter match {
    case And(left, right) => literals(left) ++ literals(right)
    case Or(left, right) => literals(left) ++ literals(right)
    case Not(child) => literals(child)
    case EqualTo(_, value) => Seq(value)
    case EqualNullSafe(_, value) => Seq(value)
    case GreaterThan(_, value) => Seq(value)
    case GreaterThanOrEqual(_, value) => Seq(value)
    case LessThan(_, value) => Seq(value)
    case LessThanOrEqual(_, value) => Seq(value)
    case In(_, values) => values.toSeq
    case _ => Nil
  }

  private def isFloat(value: Any): Boolean = value match {
    case _: Double | _: Float => true
    case _ => false
  }

  private def isZeroOrNaN(value: Any): Boolean = value match {
    case number: Double => number == 0.0 || number.isNaN
    case number: Float => number == 0.0f || number.isNaN
    case _ => false
  }

  def apply(request: HudiScanRequest): HudiReading = {
    // A table may have its own column with that name; it hides the constant.
    val hidden = Set(HudiColumns.file, HudiColumns.position) -- request.snapshot.schema.fieldNames
    val (constants, stored) = request.required.fields.partition { f =>
      (hidden(f.name) && f.name == HudiColumns.file) || f.name == HudiColumns.fileNumber
    }
    val columns = stored.map(f => if (hidden(f.name)) f.copy(metadata = counted) else f)
    val changed = request.snapshot.rows
    val surplus = changed.isDefined && !columns.exists(_.name == HudiColumns.commitTime)
    val added = if (surplus) Seq(StructField(HudiColumns.commitTime, StringType)) else Nil
    HudiReading(
      StructType(columns ++ added),
      StructType(constants),
      request.filters,
      changed,
      surplus)
  }

  /** `wanted` with the file's names of fields and types of leaves; all nullable. */
  private def inFile(wanted: StructType, file: StructType): StructType = {
    val held = file.fields.map(f => f.name -> f).toMap
    StructType(wanted.fields.map { field =>
      val inOwn = held.get(field.name).filterNot(_ => field.metadata == counted)
      inOwn.fold(field.copy(name = fileName(field), nullable = true)) { own =>
        val dataType = inFile(field.dataType, own.dataType)
        field.copy(name = fileName(own), dataType = dataType, nullable = true)
      }
    })
  }

  /** The file's name of a field, from Python, if it differs from the table's. */
  private def fileName(field: StructField): String =
    if (field.metadata.contains(renamed)) field.metadata.getString(renamed) else field.name

  private val renamed = "pyhudi.file_name"

  /** The column that Spark's reader fills with row numbers. */
  private val counted: Metadata =
    new MetadataBuilder().putString(
      renamed,
      ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME).build()

  /** The numbers of a file's rows, as a column that Spark's reader fills. */
  val numbered: StructField =
    StructField(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME, LongType)

  private def inFile(wanted: DataType, held: DataType): DataType = (wanted, held) match {
    case (w: StructType, h: StructType) => inFile(w, h)
    case (w: ArrayType, h: ArrayType) => w.copy(elementType = inFile(w.elementType, h.elementType))
    case (w: MapType, h: MapType) =>
      w.copy(keyType = inFile(w.keyType, h.keyType), valueType = inFile(w.valueType, h.valueType))
    case (w @ (_: StructType | _: ArrayType | _: MapType), _) => w
    case (_, h) => h
  }

  /** `conf` for executors. It takes 20 ms to write: a reader that can shares that of another. */
  def broadcast(conf: Configuration): Broadcast[SerializableConfiguration] =
    Compat.activeSession.sparkContext.broadcast(new SerializableConfiguration(conf))

  /** The configuration from which the reader takes its settings, as in ParquetScan. */
  private def hadoopConf(physical: StructType, conf: SQLConf): Configuration = {
    val hadoop = Compat.newHadoopConf()
    hadoop.set(ParquetInputFormat.READ_SUPPORT_CLASS, classOf[ParquetReadSupport].getName)
    hadoop.set(ParquetReadSupport.SPARK_ROW_REQUESTED_SCHEMA, physical.json)
    hadoop.set(ParquetWriteSupport.SPARK_ROW_SCHEMA, physical.json)
    hadoop.set(SQLConf.SESSION_LOCAL_TIMEZONE.key, conf.sessionLocalTimeZone)
    hadoop.setBoolean(SQLConf.NESTED_SCHEMA_PRUNING_ENABLED.key, conf.nestedSchemaPruningEnabled)
    hadoop.setBoolean(SQLConf.CASE_SENSITIVE.key, conf.caseSensitiveAnalysis)
    hadoop.setBoolean(SQLConf.PARQUET_BINARY_AS_STRING.key, conf.isParquetBinaryAsString)
    hadoop.setBoolean(SQLConf.PARQUET_INT96_AS_TIMESTAMP.key, conf.isParquetINT96AsTimestamp)
    hadoop.setBoolean(
      SQLConf.PARQUET_INFER_TIMESTAMP_NTZ_ENABLED.key,
      conf.parquetInferTimestampNTZEnabled)
    hadoop.setBoolean(SQLConf.LEGACY_PARQUET_NANOS_AS_LONG.key, conf.legacyParquetNanosAsLong)
    hadoop
  }
}
