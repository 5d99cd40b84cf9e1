import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * A client that carries out commands from its standard input, one for each line, and answers each with a line:
 *
 * <pre>
 * acquire PATH           "acquired", when it is
 * try PATH MILLISECONDS  "acquired" or "busy"
 * release PATH           "released"
 * pairs PATH COUNT       the duration of each of so many pairs of acquire and release, in nanoseconds
 * </pre>
 *
 * An error is answered with "failed: " and the error. The client ends when its input ends.
 */
public final class Curator {
    private final CuratorFramework client;
    private final Map<String, InterProcessMutex> locks = new HashMap<>();

    private Curator(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        int sessionMs = Integer.parseInt(arguments[1]);
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(
                arguments[0], sessionMs, sessionMs, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            System.out.println("ready");
            Curator curator = new Curator(client);
            BufferedReader input =
                    new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                System.out.println(curator.obey(line.split(" ")));
            }
        }
    }

    private String obey(String[] words) {
        InterProcessMutex lock =
                locks.computeIfAbsent(words[1], path -> new InterProcessMutex(client, path));
        try {
            switch (words[0]) {
                case "acquire":
                    lock.acquire();
                    return "acquired";
                case "try":
                    return lock.acquire(Long.parseLong(words[2]), TimeUnit.MILLISECONDS) ? "acquired" : "busy";
                case "release":
                    lock.release();
                    return "released";
                case "pairs":
                    return LongStream.range(0, Long.parseLong(words[2]))
                            .map(i -> pair(lock))
                            .mapToObj(Long::toString)
                            .collect(Collectors.joining(" "));
                default:
                    return "failed: what is " + words[0] + "?";
            }
        } catch (Exception error) {
            return "failed: " + error;
        }
    }

    private static long pair(InterProcessMutex lock) {
        long start = System.nanoTime();
        try {
            lock.acquire();
            lock.release();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return System.nanoTime() - start;
    }
}
