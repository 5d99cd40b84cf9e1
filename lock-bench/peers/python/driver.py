"""Drives the lock libraries in Python. Each line of the standard input is a request in JSON: see peers/README.md."""

import argparse
import importlib.metadata
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

now = time.monotonic_ns


class RedisPy:
    """`redis.lock.Lock`, with its default pause of 100 ms. It renews nothing."""

    package = "redis"

    def __init__(self, address, ttl):
        import redis

        host, port = address.rsplit(":", 1)
        self.errors = redis.exceptions
        # Each contender has a connection, and the default limit is 100.
        self.client = redis.Redis(host=host, port=int(port), max_connections=4096)
        self.client.ping()
        self.ttl = ttl

    def lock(self, name):
        # Contenders are threads, but a lock that is kept is released by the thread that handles the next request.
        lock = self.client.lock(name, timeout=self.ttl, thread_local=False)
        return Lock(lock.acquire, lambda: self.release(lock))

    def release(self, lock):
        try:
            lock.release()
            return True
        except self.errors.LockNotOwnedError:
            return False


class Kazoo:
    """`kazoo.recipe.lock.Lock`, under one session."""

    package = "kazoo"

    def __init__(self, address, ttl):
        import logging

        from kazoo.client import KazooClient

        logging.disable(logging.CRITICAL)
        self.client = KazooClient(hosts=address, timeout=ttl)
        self.client.start(timeout=15)

    def lock(self, name):
        lock = self.client.Lock("/kazoo/" + name)
        return Lock(lock.acquire, lambda: bool(lock.release()))


class Lock:
    def __init__(self, acquire, release):
        self.acquire, self.release = acquire, release

    def take(self):
        if not self.acquire():
            raise RuntimeError("it was not acquired")


class Driver:
    def __init__(self, system):
        self.system = system
        self.held = []

    def handle(self, request):
        return getattr(self, request["op"])(request)

    def pairs(self, request):
        tasks, count = request["tasks"], request["count"]
        locks = [self.system.lock(f"{request['name']}-{i}") for i in range(tasks)]
        started = now()
        until = started + request["run_ms"] * 1_000_000

        def task(lock):
            done, latencies = 0, []
            while done < count if count else now() < until:
                asked = now()
                lock.take()
                if not lock.release():
                    raise RuntimeError("a lock that nobody else wanted was lost")
                done += 1
                latencies.append(now() - asked)
            return done, latencies

        each = at_once(tasks, task, locks)
        elapsed = now() - started
        latencies = each[0][1] if tasks == 1 else []
        return {"pairs": {"count": sum(done for done, _ in each), "ns": elapsed, "latencies": latencies}}

    def contend(self, request):
        until, hold = request["until_ns"], request["hold_us"] / 1e6
        locks = [self.system.lock(request["name"]) for _ in range(request["tasks"])]

        def contender(i):
            # Numbers are unique among all processes.
            number = request["process"] + i * request["processes"]
            lock, grants, lost = locks[i], [], 0
            time.sleep(max(0, request["start_ns"] - now()) / 1e9)
            while True:
                asked = now()
                if asked >= until:
                    return grants, lost
                lock.take()
                acquired = now()
                if hold and acquired < until:
                    time.sleep(hold)
                grants.append([number, asked, acquired, now(), 0])
                lost += not lock.release()

        each = at_once(len(locks), contender, range(len(locks)))
        return {
            "contended": {
                "grants": [grant for grants, _ in each for grant in grants],
                "lost": sum(lost for _, lost in each),
            }
        }

    def hold(self, request):
        lock = self.system.lock(request["name"])
        lock.take()
        at = now()
        self.held.append(lock)
        return {"acquired": {"at_ns": at}}

    def keep(self, request):
        def take(i):
            lock = self.system.lock(f"{request['name']}-{i}")
            lock.take()
            return lock

        self.held.extend(at_once(16, take, range(request["count"])))
        return {"done": {"lost": 0}}

    def give_back(self, _):
        held, self.held = self.held, []
        return {"done": {"lost": sum(not lock.release() for lock in held)}}


def at_once(threads, work, items):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--system", required=True)
    arguments.add_argument("--address", required=True)
    arguments.add_argument("--ttl-ms", required=True, type=int)
    given = arguments.parse_args()
    threading.stack_size(256 * 1024)
    try:
        system = {"redis-py": RedisPy, "kazoo": Kazoo}[given.system]
        driver = Driver(system(given.address, given.ttl_ms / 1000))
        say({"ready": {"version": importlib.metadata.version(system.package), "kinds": ["mutex"]}})
    except Exception as error:
        say({"failed": repr(error)})
        return
    for line in sys.stdin:
        try:
            say(driver.handle(json.loads(line)))
        except Exception as error:
            say({"failed": repr(error)})


main()
