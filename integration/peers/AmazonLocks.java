import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import com.amazonaws.services.dynamodbv2.model.LockCurrentlyUnavailableException;
import com.amazonaws.services.dynamodbv2.model.LockNotGrantedException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

/**
 * Amazon's lock client, which Hudi's DynamoDBBasedLockProvider is a thin layer over, by the words
 * of HudiLocks; that provider itself is in no jar of Hudi 1.2.0's that Maven Central has.
 */
public final class AmazonLocks {
  private static final Map<String, String> KEYS = new HashMap<>();
  private static final Map<String, AmazonDynamoDBLockClient> CLIENTS = new HashMap<>();
  private static final Map<String, LockItem> HELD = new HashMap<>();

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err);
    var commands = new BufferedReader(new InputStreamReader(System.in));
    answers.println("answer ready");
    for (String line; (line = commands.readLine()) != null; ) {
      String answer;
      try {
        answer = obey(line.split("\t"));
      } catch (Throwable e) {
        e.printStackTrace();
        answer = "failed " + e.toString().replace('\n', ' ');
      }
      answers.println("answer " + answer);
    }
    System.exit(0);
  }

  private static String obey(String[] words) throws Exception {
    switch (words[0]) {
      case "open":
        Map<String, String> said = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
          String[] pair = words[i].split("=", 2);
          said.put(pair[0].replace("hoodie.write.lock.", ""), pair[1]);
        }
        KEYS.put(words[1], said.get("dynamodb.partition_key"));
        CLIENTS.put(words[1], client(said));
        return "opened";
      case "try":
        try {
          // By itself the client waits for the lease of the holder, and then as long as it is told.
          long millis = Long.parseLong(words[2]);
          HELD.put(
              words[1],
              CLIENTS
                  .get(words[1])
                  .acquireLock(
                      AcquireLockOptions.builder(KEYS.get(words[1]))
                          .withShouldSkipBlockingWait(millis < 1000)
                          .withAdditionalTimeToWaitForLock(millis)
                          .withTimeUnit(TimeUnit.MILLISECONDS)
                          .build()));
          return "true";
        } catch (LockNotGrantedException | LockCurrentlyUnavailableException e) {
          return "false " + e.getMessage();
        }
      case "unlock":
        return String.valueOf(CLIENTS.get(words[1]).releaseLock(HELD.remove(words[1])));
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private static AmazonDynamoDBLockClient client(Map<String, String> said) {
    DynamoDbClient dynamo =
        DynamoDbClient.builder()
            .endpointOverride(URI.create(said.get("dynamodb.endpoint_url")))
            .region(Region.US_EAST_1)
            .httpClient(UrlConnectionHttpClient.create())
            .credentialsProvider(
                StaticCredentialsProvider.create(AwsBasicCredentials.create("test", "test")))
            .build();
    long leaseMillis = Long.parseLong(said.get("wait_time_ms"));
    return new AmazonDynamoDBLockClient(
        AmazonDynamoDBLockClientOptions.builder(dynamo, said.get("dynamodb.table"))
            .withTimeUnit(TimeUnit.MILLISECONDS)
            .withLeaseDuration(leaseMillis)
            .withHeartbeatPeriod(leaseMillis / 4)
            .withCreateHeartbeatBackgroundThread(true)
            .build());
  }
}
