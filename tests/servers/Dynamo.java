import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** DynamoDB Local in memory, on loopback alone (it has no option for that): its port is given. */
public final class Dynamo {
  public static void main(String[] args) throws Exception {
    DynamoDBProxyServer proxy =
        ServerRunner.createServerFromCommandLineArgs(
            new String[] {"-inMemory", "-disableTelemetry", "-port", args[0]});
    var field = DynamoDBProxyServer.class.getDeclaredField("server");
    field.setAccessible(true);
    for (var connector : ((Server) field.get(proxy)).getConnectors()) {
      ((ServerConnector) connector).setHost("127.0.0.1");
    }
    proxy.start();
    proxy.join();
  }
}
