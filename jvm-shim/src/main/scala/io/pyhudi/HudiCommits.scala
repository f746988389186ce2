package io.pyhudi

import scala.collection.JavaConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.execution.pyhudi.CommitMetrics

/** Questions that Python answers with a commit; Spark's SQL tab then shows what it did. */
private[pyhudi] object HudiCommits {

  def ask(method: String, request: (String, Any)*): Unit = show(Bridge.ask(method, request: _*))

  def askWith(method: String, jvmObject: AnyRef, request: (String, Any)*): Unit =
    show(Bridge.askWith(method, jvmObject, request: _*))

  private def show(answer: JsonNode): Unit =
    Option(answer.get("shown")).foreach { shown =>
      CommitMetrics.show(
        Compat.activeSession.sparkContext,
        shown.get("title").asText,
        shown.get("facts").elements().asScala.map { fact =>
          (fact.get(0).asText, fact.get(1).asText, fact.get(2).asLong)
        }.toList
      )
    }
}
