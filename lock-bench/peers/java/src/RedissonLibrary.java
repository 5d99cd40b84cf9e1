import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson: `RLock`, renewed by its watchdog, or its fair lock; and its read-write lock and semaphore. */
final class RedissonLibrary implements Library {
    private static final int PERMITS = 8;
    private final RedissonClient client;
    private final boolean fair;

    RedissonLibrary(String address, long ttlMs, boolean fair) {
        Config config = new Config();
        config.setLockWatchdogTimeout(ttlMs);
        config.useSingleServer().setAddress("redis://" + address);
        this.client = Redisson.create(config);
        this.fair = fair;
    }

    @Override
    public Contender lock(String name, String role) {
        switch (role) {
            case "read":
                return contender(client.getReadWriteLock(name).readLock());
            case "write":
                return contender(client.getReadWriteLock(name).writeLock());
            case "permit":
                return permit(client.getPermitExpirableSemaphore(name));
            default:
                return contender(fair ? client.getFairLock(name) : client.getLock(name));
        }
    }

    @Override
    public List<String> kinds() {
        return fair ? List.of("mutex") : List.of("mutex", "rw", "semaphore");
    }

    @Override
    public String version() {
        return Redisson.class.getPackage().getImplementationVersion();
    }

    private static Contender contender(RLock lock) {
        return new Contender() {
            @Override
            public void acquire() {
                lock.lock();
            }

            @Override
            public boolean release() {
                try {
                    lock.unlock();
                    return true;
                } catch (IllegalMonitorStateException lost) {
                    return false;
                }
            }
        };
    }

    private static Contender permit(RPermitExpirableSemaphore semaphore) {
        semaphore.trySetPermits(PERMITS);
        return new Contender() {
            private String permit;

            @Override
            public void acquire() throws InterruptedException {
                permit = semaphore.acquire();
            }

            @Override
            public boolean release() {
                return semaphore.tryRelease(permit);
            }
        };
    }
}
