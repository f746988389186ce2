package io.pyhudi

/** Work for a statement whose thread may be interrupted: Spark cancels a statement so.
  *
  * The flag stays set until the statement ends, and every wait on that thread would fail at once.
  * But a cancelled write is undone on it, and that has to wait for tasks and for storage.
  */
private[pyhudi] object Uninterrupted {

  /** Runs `work` without the flag, and sets the flag again. */
  def apply[T](work: => T): T = {
    val before = Thread.interrupted()
    try work
    finally if (before) Thread.currentThread.interrupt()
  }

  /** The same for a wait; an interrupt meanwhile makes it begin again. */
  def waiting[T](wait: => T): T = apply {
    try wait
    catch {
      case _: InterruptedException =>
        try waiting(wait)
        finally Thread.currentThread.interrupt()
    }
  }
}
