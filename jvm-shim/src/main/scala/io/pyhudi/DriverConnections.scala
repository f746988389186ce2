package io.pyhudi

import java.lang.reflect.{Field, Proxy}
import java.util.Collection
import java.util.concurrent.locks.Lock

import scala.util.Try

import py4j.{CallbackClient, Gateway, PythonClient}
import py4j.reflection.PythonProxyHandler

/** The connections by which this JVM's threads ask the Python program that drives it.
  *
  * py4j opens one for each thread and keeps it, and a thread in Python, until the program ends: the
  * threads of a thousand streams would leave a thousand of both. So the connection that a question
  * opens for its thread is closed afterwards. One that was there before is that of a Python thread,
  * or of a function that Python runs, and stays.
  */
private[pyhudi] final class DriverConnections private (
    client: PythonClient,
    connections: Collection[_],
    lock: Lock) {

  def asking[T](question: => T): T =
    if (client.getPerThreadConnection != null) question
    else {
      try question
      finally close()
    }

  private def close(): Unit = Option(client.getPerThreadConnection).foreach { connection =>
    lock.lock()
    try connections.remove(connection)
    finally lock.unlock()
    connection.shutdown()
    client.setPerThreadConnection(null)
  }
}

private[pyhudi] object DriverConnections {

  /** Those behind `planner`; none if py4j has a pool for all threads, or is of another make.
    *
    * The client of PySpark's gateway is not ours, and py4j shows neither it nor its list.
    */
  def of(planner: Planner): Option[DriverConnections] = Try {
    val handler = Proxy.getInvocationHandler(planner)
    val gateway = open(classOf[PythonProxyHandler], "gateway").get(handler).asInstanceOf[Gateway]
    gateway.getCallbackClient match {
      case client: PythonClient =>
        val connections = open(classOf[CallbackClient], "connections").get(client)
        val lock = open(classOf[CallbackClient], "lock").get(client)
        Some(
          new DriverConnections(
            client,
            connections.asInstanceOf[Collection[_]],
            lock.asInstanceOf[Lock]))
      case _ => None
    }
  }.toOption.flatten

  private def open(of: Class[_], name: String): Field = {
    val field = of.getDeclaredField(name)
    field.setAccessible(true)
    field
  }
}
