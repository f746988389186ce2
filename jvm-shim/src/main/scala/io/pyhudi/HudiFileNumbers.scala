package io.pyhudi

import scala.collection.mutable

/** Numbers of the files that the scans of one statement read, on the driver.
  *
  * A number means the same file in every plan of the statement, narrowed ones included.
  */
private[pyhudi] final class HudiFileNumbers {

  private val paths = mutable.ArrayBuffer.empty[String]
  private val numbers = mutable.HashMap.empty[String, Int]

  /** The number of the file at `path`, from 0 in the order of the first questions. */
  def of(path: String): Int = synchronized {
    numbers.getOrElseUpdate(
      path, {
        paths += path
        paths.size - 1
      })
  }

  def path(number: Int): String = synchronized(paths(number))
}
