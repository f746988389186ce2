package io.pyhudi

import java.io.IOException
import java.util.concurrent.locks.ReentrantLock

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import py4j.Py4JException

/** Where the Python planner is registered and asked.
  *
  * Python calls `register`, `unregister` and `isRegistered`; everything else is for the shim. Where
  * no Python program drives this JVM (spark-sql, a Connect or Thrift server, a Scala application)
  * the first question starts a [[PlannerProcess]], and so does the first after its end. All calls
  * run on the thread that asks, and no lock is held meanwhile: Python may call back into the JVM,
  * which may ask again.
  */
object Bridge {

  private final case class Registration(
      planner: Planner,
      secret: String,
      process: Option[PlannerProcess]) {

    def isAlive: Boolean = process.forall(_.isAlive)

    def ask(question: Registration => String): String =
      process.fold(question(this))(_.asking(question(this)))

    /** True where the question has not reached Python, whose process had ended by then. */
    def wasGone(failure: Py4JException): Boolean =
      failure.getCause.isInstanceOf[IOException] && process.exists(_.hasEnded)
  }

  @volatile private var current: Option[Registration] = None
  private val starting = new ReentrantLock

  sys.addShutdownHook(current.flatMap(_.process).foreach(_.end()))

  def register(planner: Planner, secret: String): Unit =
    replace(Some(Registration(planner, secret, None)))

  def unregister(): Unit = replace(None)

  def isRegistered: Boolean = current.isDefined

  /** Asks Python and returns the value under `ok`.
    *
    * The session's own `hoodie.*` settings travel with each request as `session`.
    *
    * @throws HudiAnalysisException with Python's message if Python answers with an error
    */
  private[pyhudi] def ask(method: String, request: (String, Any)*): JsonNode = {
    val json = body(request)
    answer(method)(to => to.planner.call(to.secret, method, json))
  }

  /** [[ask]] that hands a live JVM object (a DataFrame) along. */
  private[pyhudi] def askWith(
      method: String,
      jvmObject: AnyRef,
      request: (String, Any)*): JsonNode = {
    val json = body(request)
    answer(method)(to => to.planner.callWith(to.secret, method, jvmObject, json))
  }

  private def body(request: Seq[(String, Any)]): String =
    Json.render(request.toMap + ("session" -> Compat.hoodieSettings))

  private def registration(): Registration = current.filter(_.isAlive).getOrElse {
    if (PlannerProcess.pythonDrives)
      throw new HudiAnalysisException(
        "[SETUP_ERROR] pyhudi is not attached to this Spark session: call pyhudi.attach(spark) " +
          "after the session is created.",
        "SetupError")
    started()
  }

  private def started(): Registration = {
    starting.lockInterruptibly()
    try
      current.filter(_.isAlive).getOrElse {
        val context = Compat.activeSession.sparkContext
        val python = PlannerProcess.pythonOf(context.getConf, sys.env)
        val (process, planner, secret) = PlannerProcess.start(context, python)
        val fresh = Registration(planner, secret, Some(process))
        replace(Some(fresh))
        fresh
      }
    finally starting.unlock()
  }

  private def replace(next: Option[Registration]): Unit = {
    val before = synchronized {
      val before = current
      current = next
      before
    }
    before.flatMap(_.process).foreach(_.end())
  }

  private def answer(method: String)(question: Registration => String): JsonNode = {
    val to = registration()
    val envelope =
      try
        Json.parse(
          try to.ask(question)
          catch {
            case failure: Py4JException if to.wasGone(failure) => registration().ask(question)
          })
      catch {
        case ours: HudiAnalysisException => throw ours
        case NonFatal(cause) => throw lost(to, method, cause)
      }
    Option(envelope.get("error")) match {
      case Some(error) =>
        throw new HudiAnalysisException(
          error.get("message").asText,
          error.get("class").asText,
          againInMs = Option(error.get("again_in_ms")).map(_.asLong))
      case None => envelope.get("ok")
    }
  }

  /** Questions that commit nothing. */
  private val looks =
    Set("exists", "same_tables", "describe", "decide", "plan_scan", "count", "aggregate") ++
      Set(
        "partition_values",
        "can_delete_where",
        "check_row_changes",
        "inspect",
        "spool_begin",
        "spool_abort")

  private def lost(from: Registration, method: String, cause: Throwable): HudiAnalysisException = {
    def how(process: PlannerProcess): String =
      s"pyhudi's Python process was lost while it answered '$method': ${process.obituary}."
    val (name, text) = from.process match {
      case None =>
        "SetupError" -> (s"[SETUP_ERROR] the pyhudi planner in Python did not answer '$method' " +
          s"(${cause.getMessage}). If the Python process ended, attach again.")
      case Some(process) if looks(method) =>
        "SetupError" -> (s"[SETUP_ERROR] ${how(process)} Nothing was changed: run the statement " +
          "again, which starts the process again.")
      case Some(process) =>
        "CommitUnknown" -> (s"[COMMIT_UNKNOWN] ${how(process)} The table is whole, with or " +
          "without this change: look at its rows or its history before you run the statement " +
          "again. The next statement starts the process again.")
    }
    new HudiAnalysisException(text, name, Some(cause))
  }
}
