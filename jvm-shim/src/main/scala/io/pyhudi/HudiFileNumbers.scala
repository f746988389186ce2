package io.pyhudi

import scala.collection.mutable

/** The numbers of the files that the scans of one statement read, on the driver.
  *
  * A number means the same file in all plans of the statement, narrowed plans included.
  */
private[pyhudi] final class HudiFileNumbers {

  private val paths = mutable.ArrayBuffer.empty[String]
  private val numbers = mutable.HashMap.empty[String, Int]

  /** The number of the file at `path`, from 0, in the order of first use. */
  def of(path: String): Int = synchronized {
    numbers.getOrElseUpdate(
      path, {
        paths += path
        paths.size - 1
      })
  }

  def path(number: Int): String = synchronized(paths(number))
}
