package io.pyhudi

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.pyhudi.{HudiAnalysisException, StatementPlans}

/** The scans in a plan that read the table which the plan writes to, each in its pinned state.
  *
  * Python judges the write from these states. If another commit has come between, the plan is
  * evaluated again on the state after that commit, as if it had been run later.
  */
private[pyhudi] final class HudiOwnReads(tables: Seq[Table]) {

  /** The scans for Python: none if the plan reads only other tables. */
  def question(evaluated: Option[Int]): (String, Any) =
    HudiOwnReads.question(tables.flatMap(HudiOwnReads.state).map(_.scanned).distinct, evaluated)

  /** Each table as it is now; none if a table has other columns now. */
  def now: Option[Map[Table, HudiTable]] = {
    val fresh = tables.map(table => HudiOwnReads.described(table).flatMap(_.now).map(table -> _))
    if (fresh.forall(_.isDefined)) Some(fresh.flatten.toMap) else None
  }
}

private[pyhudi] object HudiOwnReads {

  /** The scans of a statement whose plan is not known. */
  val unknown: (String, Any) = question(Nil, None)

  private def question(scans: Seq[Map[String, Any]], evaluated: Option[Int]): (String, Any) =
    "reads" -> Map("scans" -> scans, "evaluated" -> evaluated)

  /** The reads of the table at `path`, without those at a point in time that the user named: their
    * rows are the same whatever is committed.
    */
  def of(plan: LogicalPlan, path: String): HudiOwnReads = {
    val found = movable(plan).map { case (table, _) => table }
    val paths = found.flatMap(state).map(_.path)
    new HudiOwnReads(
      if (paths.isEmpty) Nil
      else {
        val flags = Bridge.ask("same_tables", HudiPlace(path), "others" -> paths)
        found.zipWithIndex.collect { case (table, at) if flags.get(at).asBoolean => table }
      })
  }

  /** The tables that a plan reads, but for those at a point in time that the user named. */
  def movable(plan: LogicalPlan): Seq[(Table, HudiTable)] =
    StatementPlans.relations(plan).flatMap { case (table, options) =>
      described(table).filterNot(_.snapshot.under(options).travels).map(table -> _)
    }.distinct

  private def described(table: Table): Option[HudiTable] = table match {
    case known: HudiTable => Some(known)
    case unread: HudiUnreadTable => Some(unread.described)
    case _ => None
  }

  private def state(table: Table): Option[HudiSnapshot] = described(table).map(_.snapshot)

  /** Lets Python write rows to the table at `path`; again if they were read from it, and it has
    * changed meanwhile.
    */
  def write(
      method: String,
      rows: DataFrame,
      place: HudiPlace,
      request: Seq[(String, Any)],
      evaluated: Int = 0): Unit = {
    val reads = of(StatementPlans.of(rows), place.path)
    val asked = request :+ reads.question(Some(evaluated))
    try {
      HudiCommits.askWith(method, rows, place.copy(batch = HudiEpoch.of(rows)), asked: _*)
      ()
    } catch {
      case LostRace(lost, waitMs) =>
        Thread.sleep(waitMs)
        val now = reads.now.getOrElse(throw lost)
        write(method, StatementPlans.on(rows, now), place, request, evaluated + 1)
    }
  }
}

/** Python's answer if another commit came between: how long to wait until the next try. */
private[pyhudi] object LostRace {

  def unapply(failure: Throwable): Option[(HudiAnalysisException, Long)] = failure match {
    case ours: HudiAnalysisException => ours.againInMs.map(ours -> _)
    case _ => None
  }
}
