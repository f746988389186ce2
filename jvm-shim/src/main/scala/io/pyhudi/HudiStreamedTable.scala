package io.pyhudi

import scala.util.control.NonFatal

/** A table that `toTable` has just made, without the options of the stream.
  *
  * Spark passes those options to the sink alone, after the table is there. So the sink has Python
  * make the table again with them, as long as nobody else uses it.
  *
  * @param definition the table as `toTable` defined it
  * @param unregister removes its entry from the catalog again, if no table stays
  */
private[pyhudi] final class HudiStreamedTable(
    definition: HudiDefinition,
    target: HudiTarget,
    made: HudiDefinition.Made,
    unregister: () => Unit) {

  def path: String = HudiDataSource.located(target.path)

  /** Gives the table the options of its stream; if they do not fit, no table is left. */
  def take(options: Map[String, String]): Unit =
    if (options.nonEmpty && made.discarded(target)) {
      try definition.create(target.path, options)
      catch {
        case cause: Throwable =>
          try unregister()
          catch { case NonFatal(more) => cause.addSuppressed(more) }
          throw cause
      }
      ()
    }
}

private[pyhudi] object HudiStreamedTable {

  // `toTable` makes the table and then the sink, on one thread.
  private val noted = new ThreadLocal[HudiStreamedTable]

  /** Notes a new table, if `toTable` makes it. An earlier note of this thread is forgotten. */
  def note(
      definition: HudiDefinition,
      target: HudiTarget,
      made: HudiDefinition.Made,
      unregister: () => Unit): Unit =
    if (made.id.isDefined && isInToTable) {
      noted.set(new HudiStreamedTable(definition, target, made, unregister))
    } else {
      noted.remove()
    }

  /** The table at `path`, if this thread has noted it. */
  def taken(path: String): Option[HudiStreamedTable] = {
    val found = Option(noted.get)
    noted.remove()
    found.filter(_.path == path)
  }

  private def isInToTable: Boolean =
    Thread.currentThread.getStackTrace.exists { at =>
      at.getMethodName == "toTable" && at.getClassName.endsWith(".DataStreamWriter")
    }
}
