package io.pyhudi

import scala.collection.JavaConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.execution.pyhudi.CommitMetrics

/** Questions that Python answers with a commit; Spark's SQL tab then shows what it did. */
private[pyhudi] object HudiCommits {

  def ask(method: String, place: HudiPlace, request: (String, Any)*): Unit =
    show(Bridge.ask(method, place, request: _*))

  def askWith(
      method: String,
      jvmObject: AnyRef,
      place: HudiPlace,
      request: (String, Any)*): JsonNode = {
    val answer = Bridge.askWith(method, jvmObject, place, request: _*)
    show(answer)
    answer
  }

  /** What the last commit on this thread changed. */
  private val last = new ThreadLocal[HudiChangedRows]

  /** What `statement` changes by its commit; a statement that is repeated commits only once. */
  def changedBy(statement: => Unit): HudiChangedRows = {
    last.set(HudiChangedRows(0, 0, Some(0)))
    statement
    last.get
  }

  private def show(answer: JsonNode): Unit = {
    last.set(HudiChangedRows.of(answer.get("changed")))
    Json.some(answer.get("shown")).foreach { shown =>
      CommitMetrics.show(
        Compat.activeSession.sparkContext,
        shown.get("title").asText,
        shown.get("facts").elements().asScala.map { fact =>
          (fact.get(0).asText, fact.get(1).asText, fact.get(2).asLong)
        }.toList
      )
    }
  }
}

/** Numbers of rows as SQL counts them; those that were deleted may be unknown. */
private[pyhudi] final case class HudiChangedRows(
    inserted: Long,
    updated: Long,
    deleted: Option[Long])

private[pyhudi] object HudiChangedRows {

  def of(answer: JsonNode): HudiChangedRows = HudiChangedRows(
    answer.get("inserted").asLong,
    answer.get("updated").asLong,
    Json.some(answer.get("deleted")).map(_.asLong))
}
