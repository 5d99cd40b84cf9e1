/* The wall clock of one process is as many seconds ahead as a file says, which may say something else at any time. The clocks that
   count from the start of the machine are left alone. Loaded before the C library, by LD_PRELOAD. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void read_file(void) {
    const char *path = getenv("DISTLOCK_SERVER_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *there;
    if (file < 0) return;
    there = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (there != MAP_FAILED) ahead = there;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
