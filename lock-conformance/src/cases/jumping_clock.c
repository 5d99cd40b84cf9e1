/* The wall clock of one process jumps between now, an hour ahead and an hour ago, every 50 ms. The clocks that count
   from the start of the machine are left alone. Loaded before the C library, by LD_PRELOAD. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const long jumps[] = {0, 3600, -3600};

static void wall(struct timespec *now) {
    struct timespec since_boot;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &since_boot);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, now);
    now->tv_sec += jumps[(since_boot.tv_sec * 20 + since_boot.tv_nsec / 50000000) % 3];
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        wall(now);
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, now);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    wall(&exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    wall(&exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

/* A server that the process starts keeps the right time. */
__attribute__((constructor)) static void only_here(void) { unsetenv("LD_PRELOAD"); }
