package org.apache.spark.sql.pyhudi

import org.apache.spark.sql.AnalysisException

/** An error from pyhudi's Python side, with the same message.
  *
  * It is in Spark's package because `AnalysisException` can only be extended there.
  *
  * @param errorClassName name of the Python class, such as `CommitConflict`
  * @param againInMs if Python wants the statement evaluated again: how long to wait before that
  */
class HudiAnalysisException(
    text: String,
    val errorClassName: String,
    reason: Option[Throwable] = None,
    val againInMs: Option[Long] = None)
    extends AnalysisException(message = text, cause = reason)
