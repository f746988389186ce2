package io.pyhudi

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** Where the Python planner is registered and asked.
  *
  * Python calls `register`, `unregister` and `isRegistered`; everything else is for the shim. All
  * calls run on the thread that asks, and no lock is held meanwhile: Python may call back into the
  * JVM, which may ask again.
  */
object Bridge {

  private final case class Registration(planner: Planner, secret: String)

  @volatile private var current: Option[Registration] = None

  def register(planner: Planner, secret: String): Unit =
    current = Some(Registration(planner, secret))

  def unregister(): Unit = current = None

  def isRegistered: Boolean = current.isDefined

  /** Asks Python and returns the value under `ok`.
    *
    * The session's own `hoodie.*` settings travel with each request as `session`.
    *
    * @throws HudiAnalysisException with Python's message if Python answers with an error
    */
  private[pyhudi] def ask(method: String, request: (String, Any)*): JsonNode = {
    val to = registration()
    unwrap(method)(to.planner.call(to.secret, method, body(request)))
  }

  /** [[ask]] that hands a live JVM object (a DataFrame) along. */
  private[pyhudi] def askWith(
      method: String,
      jvmObject: AnyRef,
      request: (String, Any)*): JsonNode = {
    val to = registration()
    unwrap(method)(to.planner.callWith(to.secret, method, jvmObject, body(request)))
  }

  private def body(request: Seq[(String, Any)]): String =
    Json.render(request.toMap + ("session" -> Compat.hoodieSettings))

  // A JVM-first process (spark-sql, a Connect server) has nobody who calls register: starting a
  // Python planner for it belongs here.
  private def registration(): Registration = current.getOrElse(
    throw new HudiAnalysisException(
      "[SETUP_ERROR] pyhudi is not attached to this Spark session: call pyhudi.attach(spark) " +
        "after the session is created.",
      "SetupError"))

  private def unwrap(method: String)(answer: => String): JsonNode = {
    val envelope =
      try Json.parse(answer)
      catch {
        case NonFatal(cause) =>
          val lost = new HudiAnalysisException(
            s"[SETUP_ERROR] the pyhudi planner in Python did not answer '$method' " +
              s"(${cause.getMessage}). If the Python process ended, attach again.",
            "SetupError"
          )
          lost.initCause(cause)
          throw lost
      }
    Option(envelope.get("error")) match {
      case Some(error) =>
        throw new HudiAnalysisException(error.get("message").asText, error.get("class").asText)
      case None => envelope.get("ok")
    }
  }
}
