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
      request: (String, Any)*): Unit =
    show(Bridge.askWith(method, jvmObject, place, request: _*))

  private def show(answer: JsonNode): Unit =
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
