package io.pyhudi

import java.io.IOException
import java.util.concurrent.locks.ReentrantLock

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.SparkContext
import org.apache.spark.sql.pyhudi.{HudiAnalysisException, RunningBatches}
import py4j.Py4JException

/** Registers the Python planner and asks it.
  *
  * Python calls `protocol`, `register`, `unregister` and `isRegistered`; everything else is for the
  * shim. If no Python program has attached (spark-sql, a Connect or Thrift server, a Scala
  * application, a Python one that does not know of pyhudi), the first question starts a
  * [[PlannerProcess]], and so does the first question after its end. A call runs on the thread that
  * asks, without a lock: Python may call back into the JVM, which may ask again.
  */
object Bridge {

  private final case class Registration(
      planner: Planner,
      secret: String,
      application: SparkContext,
      process: Option[PlannerProcess]) {

    def isAlive: Boolean = process.fold(!application.isStopped)(_.isAlive)

    private val connections = if (process.isEmpty) DriverConnections.of(planner) else None

    def ask(question: Registration => String): String = process match {
      case Some(process) => process.asking(question(this))
      case None => connections.fold(question(this))(_.asking(question(this)))
    }

    /** True if the question did not reach Python, because its process had ended. */
    def wasGone(failure: Py4JException): Boolean =
      failure.getCause.isInstanceOf[IOException] && process.exists(_.hasEnded)
  }

  @volatile private var current: Option[Registration] = None
  private val starting = new ReentrantLock

  sys.addShutdownHook(current.flatMap(_.process).foreach(_.end()))

  /** The version of the protocol; Python compares it with its own. */
  def protocol: String = Protocol.version

  /** @param version the version of Python's protocol
    * @throws HudiAnalysisException if the jar has another version
    */
  def register(planner: Planner, secret: String, version: String): Unit = {
    requireVersion(version)
    replace(Some(Registration(planner, secret, Compat.applicationSession.sparkContext, None)))
  }

  private[pyhudi] def requireVersion(version: String): Unit =
    if (version != Protocol.version)
      throw new HudiAnalysisException(
        s"[SETUP_ERROR] The jar has version ${Protocol.version} of pyhudi's protocol, and the " +
          s"Python package has version $version. Install one version of both.",
        "SetupError"
      )

  def unregister(): Unit = replace(None)

  def isRegistered: Boolean = current.isDefined

  /** Asks Python and returns the value under `ok`.
    *
    * @param place the table that the question is about
    * @param request the question's other fields, by the names of Python's protocol
    * @throws HudiAnalysisException with Python's message if Python answers with an error
    * @throws InterruptedException with that message if the stream that asks was told to stop
    */
  private[pyhudi] def ask(
      method: String,
      place: HudiPlace,
      request: (String, Any)*): JsonNode = {
    val json = body(place, request)
    answer(method)(to => to.planner.call(to.secret, method, json))
  }

  /** [[ask]] with a JVM object (a DataFrame). */
  private[pyhudi] def askWith(
      method: String,
      jvmObject: AnyRef,
      place: HudiPlace,
      request: (String, Any)*): JsonNode = {
    val json = body(place, request)
    answer(method)(to => to.planner.callWith(to.secret, method, jvmObject, json))
  }

  private def body(place: HudiPlace, request: Seq[(String, Any)]): String =
    Json.render(Map("place" -> place.toJson, "ask" -> request.toMap))

  private def registration(): Registration = current.filter(_.isAlive).getOrElse(started())

  private def started(): Registration = {
    starting.lockInterruptibly()
    try
      current.filter(_.isAlive).getOrElse {
        val context = Compat.activeSession.sparkContext
        val python = DriverPython.of(context.getConf, sys.env)
        val (process, planner, secret) = PlannerProcess.start(context, python)
        val fresh = Registration(planner, secret, context, Some(process))
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
    before.flatMap(_.process).foreach(_.retire())
  }

  private def answer(method: String)(question: Registration => String): JsonNode =
    try answered(method)(question)
    catch {
      // `query.stop()` cancels the jobs of the batch; only so Spark knows that nothing has failed.
      case failure: HudiAnalysisException if RunningBatches.isStopping =>
        throw new InterruptedException(failure.getMessage)
    }

  private def answered(method: String)(question: Registration => String): JsonNode = {
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
          error.get("kind").asText,
          againInMs = Json.some(error.get("again_in_ms")).map(_.asLong))
      case None => envelope.get("ok")
    }
  }

  private def lost(from: Registration, method: String, cause: Throwable): HudiAnalysisException = {
    def how(process: PlannerProcess): String =
      s"pyhudi's Python process was lost while it answered '$method': ${process.obituary}."
    val (name, text) = from.process match {
      case None =>
        "SetupError" -> (s"[SETUP_ERROR] the pyhudi planner in Python did not answer '$method' " +
          s"(${cause.getMessage}). If the Python process ended, attach again.")
      case Some(process) if Protocol.looks(method) =>
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
