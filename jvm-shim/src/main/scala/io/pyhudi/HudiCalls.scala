package io.pyhudi

import java.util.Locale

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.MapData
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.types._

/** The procedures for CALL in the catalog of paths, as in
  * pyhudi.system.clean_failed_writes(table => 'trips').
  */
private[pyhudi] object HudiCalls {

  import HudiServiceParameters._

  val Namespace: Array[String] = Array("system")

  val all: Seq[HudiProcedure] =
    Seq(
      new HudiService(
        "archive",
        "Moves old instants into the archived timeline.",
        Seq(MaxInstants)),
      new HudiService(
        "clean",
        "Deletes versions of files that no retained commit reads.",
        Seq(MaxFiles, MaxBytes)),
      new HudiService(
        "cluster",
        "Puts rows into fewer files, or into better sorted ones.",
        Seq(MaxFiles, MaxBytes, MaxCpuMinutes)),
      new HudiService(
        "doctor",
        "Lists what is wrong with a table, and repairs it if dry_run is false.",
        Seq(OlderThanHours, ReadFiles, ForgetLost),
        looksOnly = true),
      new HudiService(
        "remove_orphans",
        "Moves files that belong to no commit into the table's bin, if dry_run is false.",
        Seq(OlderThanHours, MaxFiles, MaxBytes),
        looksOnly = true
      ),
      new HudiService(
        "run_compaction",
        "Merges log files into new base files; op says whether it plans, runs plans, or both.",
        Seq(Op, Instants, MaxFiles, MaxBytes)),
      new HudiService(
        "run_services",
        "Gives each service a turn: rolls failed writes back, cleans, archives.",
        Seq(Services, BudgetS, MaxFiles, MaxBytes, MaxCpuMinutes)),
      HudiAdvise,
      HudiBins,
      HudiCleanFailedWrites,
      HudiHealth,
      HudiPutBack,
      HudiRestore,
      HudiSavepoint,
      HudiDeleteSavepoint,
      HudiShowCompaction,
      HudiSyncPartitions,
      HudiWhy
    )

  def named(ident: Identifier): HudiProcedure =
    all
      .filter(_ => ident.namespace.sameElements(Namespace))
      .find(_.name.equalsIgnoreCase(ident.name))
      .getOrElse(throw new HudiAnalysisException(
        s"[CONFIG_ERROR] ${unknown(ident.toString)}",
        "ConfigError"))

  def has(name: String): Boolean = all.exists(_.name.equalsIgnoreCase(name))

  def unknown(name: String): String = insteadOf(name).getOrElse(
    s"there is no procedure $name: pyhudi has only " +
      all.map(each => s"system.${each.name}").mkString(", ") +
      ". Histories and files are tables, as in SELECT * FROM trips.history.")

  /** What to write for a procedure that only Apache Hudi has; none for any other name. */
  def insteadOf(name: String): Option[String] = {
    val last = name.split('.').last.toLowerCase(Locale.ROOT)
    ofHudi.get(last).map(own => s"$last is a procedure of Apache Hudi. For pyhudi write: $own")
  }

  private val ofHudi: Map[String, String] = {
    def call(own: String, more: String = "") =
      s"CALL pyhudi.system.$own(table => '<table>'$more)"
    val back = call("restore", ", instant => '<instant>'")
    val history = "SELECT * FROM <table>.history"
    val files = "SELECT * FROM <table>.files"
    Map(
      "archive_commits" -> call("archive"),
      "create_savepoint" -> call("savepoint"),
      "hive_sync" -> call("sync_partitions"),
      "rollback_to_instant" -> back,
      "rollback_to_savepoint" -> back,
      "run_clean" -> call("clean"),
      "run_clustering" -> call("cluster"),
      "show_archived_commits" -> history,
      "show_commits" -> history,
      "show_fsview_all" -> files,
      "show_fsview_latest" -> files,
      "show_rollbacks" -> history
    )
  }

  /** An argument that is a text; none for NULL. */
  def text(input: InternalRow, at: Int): Option[String] =
    Some(at).filterNot(input.isNullAt).map(input.getUTF8String(_).toString)
}

/** A parameter; `default` is an expression of SQL, none if an argument must be given. */
private[pyhudi] case class HudiParameter(
    name: String,
    dataType: DataType,
    default: Option[String],
    comment: String)

/** A procedure on one table, which answers with rows. */
private[pyhudi] abstract class HudiProcedure(val name: String, val description: String) {

  /** Python's answer for the table; `input` has the arguments, the table's name first. */
  def told(place: HudiPlace, input: InternalRow): JsonNode

  /** The parameters behind the table. */
  def more: Seq[HudiParameter] = Nil

  def all: Seq[HudiParameter] =
    HudiParameter("table", StringType, None, "a table's name or its path") +: more

  def rows(input: InternalRow): HudiToldRows = {
    val named = HudiCalls.text(input, 0).getOrElse(throw new HudiAnalysisException(
      s"[CONFIG_ERROR] NULL is not a table: $name needs a table's name or its path.",
      "ConfigError"))
    HudiListing.told(name, told(target(named).place, input))
  }

  private def target(named: String): HudiTarget =
    if (named.contains('/')) HudiTarget.atPath(named, HudiDataSource.provider)
    else {
      val session = Compat.activeSession.sessionState
      val parts = session.sqlParser.parseMultipartIdentifier(named)
      val (catalog, names) = parts match {
        case Seq(table) => "spark_catalog" -> Seq(session.catalog.getCurrentDatabase, table)
        case Seq(_, _) => "spark_catalog" -> parts
        case _ => parts.head -> parts.tail
      }
      val found = session.catalogManager.catalog(catalog) match {
        case tables: TableCatalog =>
          tables.loadTable(Identifier.of(names.init.toArray, names.last))
        case _ => null
      }
      found match {
        case table: HudiCatalogTable => table.target
        case _ =>
          throw new HudiAnalysisException(
            s"[TABLE_NOT_FOUND] $named is not a pyhudi table.",
            "TableNotFound")
      }
    }
}

/** The further parameters of services. */
private object HudiServiceParameters {

  private def of(name: String, dataType: DataType, comment: String) =
    HudiParameter(name, dataType, Some(s"CAST(NULL AS ${dataType.sql})"), comment)

  val BudgetS = of("budget_s", DoubleType, "after so many seconds no new part begins")
  val ForgetLost =
    of("forget_lost", BooleanType, "lets commits forget files that are gone for good")
  val Instants = of("instants", StringType, "only these pending ones, separated by commas")
  val MaxBytes = of("max_bytes", LongType, "after so many bytes of files no further one is taken")
  val MaxCpuMinutes =
    of("max_cpu_minutes", DoubleType, "after so much CPU time no new part begins")
  val MaxFiles = of("max_files", LongType, "after so many files no further one is taken")
  val MaxInstants = of("max_instants", LongType, "so many are moved at most")
  val Op =
    of("op", StringType, "schedule, run, scheduleAndRun or unschedule; the third if not set")
  val OlderThanHours = of("older_than_hours", DoubleType, "what is younger stays; 72 if not set")
  val ReadFiles = of("read_files", BooleanType, "looks into the data files, too")
  val Services = of("services", StringType, "their names, separated by commas")

  /** All of them: a question names each one. */
  val all: Seq[HudiParameter] = Seq(
    BudgetS,
    ForgetLost,
    Instants,
    MaxBytes,
    MaxCpuMinutes,
    MaxFiles,
    MaxInstants,
    OlderThanHours,
    Op,
    ReadFiles,
    Services)
}

/** A service that takes options, and lists each file or instant with its fate. */
private[pyhudi] class HudiService(
    name: String,
    description: String,
    further: Seq[HudiParameter],
    looksOnly: Boolean = false)
    extends HudiProcedure(name, description) {

  override def more: Seq[HudiParameter] = Seq(
    HudiParameter("dry_run", BooleanType, Some(looksOnly.toString), "only lists what would happen"),
    HudiParameter(
      "options",
      MapType(StringType, StringType),
      Some("CAST(map() AS MAP<STRING, STRING>)"),
      "hoodie.* options of a write, as for the same service in Python")
  ) ++ further

  override def told(place: HudiPlace, input: InternalRow): JsonNode = {
    val dryRun = if (input.isNullAt(1)) looksOnly else input.getBoolean(1)
    val settings = if (input.isNullAt(2)) Map.empty[String, String] else texts(input.getMap(2))
    val told = further.zipWithIndex.map { case (each, i) => each.name -> plain(input, i + 3, each) }
    val nothing = HudiServiceParameters.all.map(_.name -> (null: Any))
    Bridge.ask(
      "serve",
      place,
      "service" -> name,
      "dry_run" -> dryRun,
      "settings" -> settings,
      "arguments" -> (nothing ++ told).toMap)
  }

  private def plain(input: InternalRow, at: Int, parameter: HudiParameter): Any =
    parameter.dataType match {
      case _ if input.isNullAt(at) => null
      case BooleanType => input.getBoolean(at)
      case DoubleType => input.getDouble(at)
      case LongType => input.getLong(at)
      case _ => input.getUTF8String(at).toString
    }

  private def texts(map: MapData): Map[String, String] =
    map
      .keyArray()
      .toObjectArray(StringType)
      .zip(map.valueArray().toObjectArray(StringType))
      .collect { case (key, value) if value != null => key.toString -> value.toString }
      .toMap
}

/** Lists compactions: a service that only looks, and has no options. */
private object HudiShowCompaction
    extends HudiProcedure("show_compaction", "Lists compactions, and who runs the pending ones.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask(
      "serve",
      place,
      "service" -> name,
      "dry_run" -> true,
      "settings" -> Map.empty[String, String],
      "arguments" -> HudiServiceParameters.all.map(_.name -> (null: Any)).toMap
    )
}

/** Keeps a commit readable, and its files from every clean. */
private object HudiSavepoint
    extends HudiProcedure("savepoint", "Keeps a commit readable until its savepoint is deleted.") {

  override def more: Seq[HudiParameter] = Seq(
    HudiParameter("instant", StringType, Some("NULL"), "a commit; the newest by default"),
    HudiParameter("comment", StringType, Some("''"), "what it is for")
  )

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask(
      "savepoint",
      place,
      "instant" -> HudiCalls.text(input, 1).orNull,
      "comment" -> HudiCalls.text(input, 2).getOrElse(""))
}

/** Deletes a savepoint, and lists those that are left. */
private object HudiDeleteSavepoint
    extends HudiProcedure("delete_savepoint", "Lets a clean delete the files of a savepoint.") {

  override def more: Seq[HudiParameter] = Seq(
    HudiParameter("instant", StringType, None, "the commit that it keeps"))

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("delete_savepoint", place, "instant" -> HudiCalls.text(input, 1).getOrElse(""))
}

/** Brings a table back to a commit, and lists what that undoes. */
private object HudiRestore
    extends HudiProcedure("restore", "Undoes all commits after one, and deletes their files.") {

  override def more: Seq[HudiParameter] = Seq(
    HudiParameter("instant", StringType, None, "the last commit that stays"),
    HudiParameter("dry_run", BooleanType, Some("false"), "only lists what would be undone"),
    HudiParameter("fence", BooleanType, Some("false"), "rolls running writes back first")
  )

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask(
      "restore",
      place,
      "instant" -> HudiCalls.text(input, 1).getOrElse(""),
      "dry_run" -> (!input.isNullAt(2) && input.getBoolean(2)),
      "fence" -> (!input.isNullAt(3) && input.getBoolean(3))
    )
}

/** Rolls back what failed writers left in a table, and lists the outcomes. */
private object HudiCleanFailedWrites
    extends HudiProcedure(
      "clean_failed_writes",
      "Rolls back failed writes; living writers are only listed.") {

  override def more: Seq[HudiParameter] = Seq(
    HudiParameter("dry_run", BooleanType, Some("false"), "only lists what would be rolled back"))

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask(
      "clean_failed_writes",
      place,
      "dry_run" -> (!input.isNullAt(1) && input.getBoolean(1)))
}

/** Has a Hive Metastore list the partitions that a table has, and lists the changes. */
private object HudiSyncPartitions
    extends HudiProcedure(
      "sync_partitions",
      "Adds and drops partitions of the table's entry in a Hive Metastore.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("sync_partitions", place, "add" -> true, "drop" -> true)
}

/** Measures a table, and names what mends it: the rows of trips.health. */
private object HudiHealth
    extends HudiProcedure("health", "Measures a table, and names what mends each part.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("inspect", place, "listing" -> "health")
}

/** Advises on a table's shape: the rows of trips.advice. */
private object HudiAdvise
    extends HudiProcedure(
      "advise",
      "Advises on file sizes, index, buckets, order and partitions.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("inspect", place, "listing" -> "advice")
}

/** Lists the repairs that can be undone. */
private object HudiBins extends HudiProcedure("bins", "Lists the repairs that can be put back.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode = Bridge.ask("bins", place)
}

/** Undoes a repair, and lists its files. */
private object HudiPutBack
    extends HudiProcedure("put_back", "Undoes a repair: puts the files of a bin back.") {

  override def more: Seq[HudiParameter] = Seq(
    HudiParameter("name", StringType, None, "the bin, as bins and the repair itself name it"))

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("put_back", place, "name" -> HudiCalls.text(input, 1).getOrElse(""))
}

/** Lists every commit and file that touched a record key. */
private object HudiWhy
    extends HudiProcedure("why", "Lists every commit and file that touched a record key.") {

  override def more: Seq[HudiParameter] = Seq(
    HudiParameter("key", StringType, None, "as in _hoodie_record_key: 7, or id:1,ts:2"),
    HudiParameter(
      "partition",
      StringType,
      Some("CAST(NULL AS STRING)"),
      "only this partition's path"),
    HudiParameter("carried", BooleanType, Some("false"), "also the slices that only copied the row")
  )

  override def told(place: HudiPlace, input: InternalRow): JsonNode = {
    val key = HudiCalls.text(input, 1).getOrElse(throw new HudiAnalysisException(
      "[CONFIG_ERROR] NULL is not a record key: why needs a key as in _hoodie_record_key.",
      "ConfigError"))
    val partition = HudiCalls.text(input, 2)
    val carried = !input.isNullAt(3) && input.getBoolean(3)
    Bridge.ask("why", place, "key" -> key, "partition" -> partition, "carried" -> carried)
  }
}
