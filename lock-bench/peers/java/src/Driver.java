import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Drives the lock libraries in Java. Each line of the standard input is a request in JSON: see peers/README.md. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final Library library;
    /** Threads that stay: a lock must be released by the thread that took it. */
    private final ExecutorService threads = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(null, work, "contender", 256 * 1024);
        thread.setDaemon(true);
        return thread;
    });
    private final ExecutorService holder = Executors.newSingleThreadExecutor(work -> {
        Thread thread = new Thread(work, "holder");
        thread.setDaemon(true);
        return thread;
    });
    private final List<Contender> held = new ArrayList<>();

    private Driver(Library library) {
        this.library = library;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            given.put(arguments[i], arguments[i + 1]);
        }
        Driver driver;
        try {
            driver = new Driver(connect(
                    given.get("--system"), given.get("--address"), Long.parseLong(given.get("--ttl-ms"))));
            say(Map.of("ready", Map.of("version", driver.library.version(), "kinds", driver.library.kinds())));
        } catch (Exception error) {
            say(Map.of("failed", error.toString()));
            System.exit(1);
            return;
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                say(driver.handle(JSON.readTree(line)));
            } catch (Exception error) {
                say(Map.of("failed", error.toString()));
            }
        }
        // Libraries may leave threads that run.
        Runtime.getRuntime().halt(0);
    }

    private static Library connect(String system, String address, long ttlMs) throws Exception {
        switch (system) {
            case "redisson":
                return new RedissonLibrary(address, ttlMs, false);
            case "redisson-fair":
                return new RedissonLibrary(address, ttlMs, true);
            case "curator":
                return new CuratorLibrary(address, ttlMs);
            case "jetcd":
                return new JetcdLibrary(address, ttlMs);
            default:
                throw new IllegalArgumentException("there is no system " + system);
        }
    }

    /** As the name of its archive says. */
    static String versionOf(String artifact) {
        Matcher found =
                Pattern.compile(artifact + "-([0-9][^/]*)\\.jar").matcher(System.getProperty("java.class.path"));
        return found.find() ? found.group(1) : "unknown";
    }

    private Map<String, ?> handle(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "pairs":
                return pairs(request);
            case "contend":
                return contend(request);
            case "hold":
                return Map.of("acquired", Map.of("at_ns", holder.submit(() -> {
                    keep(request.get("name").asText());
                    return System.nanoTime();
                }).get()));
            case "keep":
                holder.submit(() -> {
                    for (int i = 0; i < request.get("count").asInt(); i++) {
                        keep(request.get("name").asText() + "-" + i);
                    }
                    return null;
                }).get();
                return Map.of("done", Map.of("lost", 0));
            case "give_back":
                return Map.of("done", Map.of("lost", holder.submit(this::giveBack).get()));
            default:
                throw new IllegalArgumentException("not a request");
        }
    }

    private void keep(String name) throws Exception {
        Contender lock = library.lock(name, "mutex");
        lock.acquire();
        held.add(lock);
    }

    private int giveBack() throws Exception {
        int lost = 0;
        for (Contender lock : held) {
            lost += lock.release() ? 0 : 1;
            lock.close();
        }
        held.clear();
        return lost;
    }

    private Map<String, ?> pairs(JsonNode request) throws Exception {
        int tasks = request.get("tasks").asInt();
        long count = request.get("count").asLong();
        List<Contender> locks = new ArrayList<>();
        for (int i = 0; i < tasks; i++) {
            locks.add(library.lock(request.get("name").asText() + "-" + i, "mutex"));
        }
        long started = System.nanoTime();
        long until = started + request.get("run_ms").asLong() * 1_000_000;
        List<Callable<List<Long>>> work = new ArrayList<>();
        for (Contender lock : locks) {
            work.add(() -> {
                List<Long> latencies = new ArrayList<>();
                while (count > 0 ? latencies.size() < count : System.nanoTime() - until < 0) {
                    long asked = System.nanoTime();
                    lock.acquire();
                    if (!lock.release()) {
                        throw new IllegalStateException("a lock that nobody else wanted was lost");
                    }
                    latencies.add(System.nanoTime() - asked);
                }
                return latencies;
            });
        }
        List<List<Long>> each = all(work);
        long elapsed = System.nanoTime() - started;
        for (Contender lock : locks) {
            lock.close();
        }
        int done = each.stream().mapToInt(List::size).sum();
        List<Long> latencies = tasks == 1 ? each.get(0) : List.of();
        return Map.of("pairs", Map.of("count", done, "ns", elapsed, "latencies", latencies));
    }

    private Map<String, ?> contend(JsonNode request) throws Exception {
        int tasks = request.get("tasks").asInt();
        int writers = request.get("writers").asInt();
        List<Contender> locks = new ArrayList<>();
        List<Callable<List<long[]>>> work = new ArrayList<>();
        int[] lost = new int[tasks];
        for (int i = 0; i < tasks; i++) {
            String role = role(request.get("kind").asText(), i < writers);
            Contender lock = library.lock(request.get("name").asText(), role);
            locks.add(lock);
            // Numbers are unique among all processes.
            int number = request.get("process").asInt() + i * request.get("processes").asInt();
            int shared = role.equals("read") || role.equals("permit") ? 1 : 0;
            int task = i;
            work.add(() -> contender(lock, request, number, shared, task, lost));
        }
        List<long[]> grants = new ArrayList<>();
        all(work).forEach(grants::addAll);
        int sum = 0;
        for (int i = 0; i < tasks; i++) {
            sum += lost[i];
            locks.get(i).close();
        }
        return Map.of("contended", Map.of("grants", grants, "lost", sum));
    }

    private static String role(String kind, boolean writes) {
        switch (kind) {
            case "rw":
                return writes ? "write" : "read";
            case "semaphore":
                return "permit";
            default:
                return "mutex";
        }
    }

    private static List<long[]> contender(
            Contender lock, JsonNode request, int number, int shared, int task, int[] lost) throws Exception {
        long until = request.get("until_ns").asLong();
        long hold = request.get("hold_us").asLong();
        sleep(request.get("start_ns").asLong() - System.nanoTime());
        List<long[]> grants = new ArrayList<>();
        while (true) {
            long asked = System.nanoTime();
            if (asked >= until) {
                return grants;
            }
            lock.acquire();
            long acquired = System.nanoTime();
            if (hold > 0 && acquired < until) {
                sleep(hold * 1000);
            }
            grants.add(new long[] {number, asked, acquired, System.nanoTime(), shared});
            lost[task] += lock.release() ? 0 : 1;
        }
    }

    private static void sleep(long nanoseconds) throws InterruptedException {
        if (nanoseconds > 0) {
            Thread.sleep(nanoseconds / 1_000_000, (int) (nanoseconds % 1_000_000));
        }
    }

    private <T> List<T> all(List<Callable<T>> work) throws Exception {
        List<Future<T>> running = new ArrayList<>();
        for (Callable<T> one : work) {
            running.add(threads.submit(one));
        }
        List<T> done = new ArrayList<>();
        for (Future<T> one : running) {
            try {
                done.add(one.get());
            } catch (ExecutionException error) {
                throw new IllegalStateException(error.getCause().toString(), error);
            }
        }
        return done;
    }

    private static void say(Map<String, ?> what) throws Exception {
        OUT.println(JSON.writeValueAsString(what));
    }
}
