// Package peers is the part of a driver that is the same for every library in Go. Each line of the standard input is a request in
// JSON: see lock-bench/peers/README.md.
package peers

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// System is a lock library.
type System interface {
	// Lock makes a lock for one contender.
	Lock(name string) (Lock, error)
}

// Lock is a lock, for one contender.
type Lock interface {
	// Acquire waits until the lock is held.
	Acquire() error
	// Release tells whether the lock was still held, as far as the library tells.
	Release() (bool, error)
	// Close releases what else the lock needed, such as a session.
	Close()
}

// Setting is the settings of a library.
type Setting struct {
	System  string
	Address string
	TTL     time.Duration
}

// Connected is a library that is connected, and its version.
type Connected struct {
	System  System
	Version string
}

type request struct {
	Op      string `json:"op"`
	Name    string `json:"name"`
	Tasks   int    `json:"tasks"`
	RunMs   int64  `json:"run_ms"`
	Count   int    `json:"count"`
	Process int    `json:"process"`
	Of      int    `json:"processes"`
	HoldUs  int64  `json:"hold_us"`
	Start   int64  `json:"start_ns"`
	Until   int64  `json:"until_ns"`
}

type response map[string]any

// grant is one time that a lock was held: task, asked, acquired, release called, shared.
type grant [5]int64

// Main connects the library that the command line names, and handles requests.
func Main(connect func(Setting) (Connected, error)) {
	setting := Setting{}
	flag.StringVar(&setting.System, "system", "", "the library")
	flag.StringVar(&setting.Address, "address", "", "host:port of the server")
	ttl := flag.Int("ttl-ms", 30_000, "of a lock, or a session")
	flag.Parse()
	setting.TTL = time.Duration(*ttl) * time.Millisecond
	connected, err := connect(setting)
	if err != nil {
		say(response{"failed": err.Error()})
		return
	}
	say(response{"ready": response{"version": connected.Version, "kinds": []string{"mutex"}}})
	serve(connected.System)
}

func serve(system System) {
	lines := bufio.NewScanner(os.Stdin)
	var held []Lock
	for lines.Scan() {
		var request request
		err := json.Unmarshal(lines.Bytes(), &request)
		var answer response
		if err == nil {
			answer, err = handle(system, request, &held)
		}
		if err != nil {
			answer = response{"failed": err.Error()}
		}
		say(answer)
	}
}

func handle(system System, request request, held *[]Lock) (response, error) {
	switch request.Op {
	case "pairs":
		return pairs(system, request)
	case "contend":
		return contend(system, request)
	case "hold":
		lock, err := hold(system, request.Name)
		at := now()
		if err != nil {
			return nil, err
		}
		*held = append(*held, lock)
		return response{"acquired": response{"at_ns": at}}, nil
	case "keep":
		return keep(system, request, held)
	case "give_back":
		lost := 0
		for _, lock := range *held {
			kept, err := lock.Release()
			if err != nil {
				return nil, err
			}
			if !kept {
				lost++
			}
			lock.Close()
		}
		*held = nil
		return response{"done": response{"lost": lost}}, nil
	}
	return nil, fmt.Errorf("not a request: %s", request.Op)
}

func hold(system System, name string) (Lock, error) {
	lock, err := system.Lock(name)
	if err != nil {
		return nil, err
	}
	return lock, lock.Acquire()
}

// each runs so many tasks at the same time, and returns the first error.
func each(tasks int, task func(int) error) error {
	var done sync.WaitGroup
	errs := make(chan error, tasks)
	for i := range tasks {
		done.Go(func() {
			if err := task(i); err != nil {
				errs <- err
			}
		})
	}
	done.Wait()
	close(errs)
	return <-errs
}

func keep(system System, request request, held *[]Lock) (response, error) {
	const atOnce = 64
	kept := make([]Lock, request.Count)
	err := each(atOnce, func(first int) error {
		for i := first; i < request.Count; i += atOnce {
			lock, err := hold(system, fmt.Sprintf("%s-%d", request.Name, i))
			if err != nil {
				return err
			}
			kept[i] = lock
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	*held = append(*held, kept...)
	return response{"done": response{"lost": 0}}, nil
}

func pairs(system System, request request) (response, error) {
	locks := make([]Lock, request.Tasks)
	for i := range locks {
		lock, err := system.Lock(fmt.Sprintf("%s-%d", request.Name, i))
		if err != nil {
			return nil, err
		}
		locks[i] = lock
		defer lock.Close()
	}
	started := time.Now()
	until := started.Add(time.Duration(request.RunMs) * time.Millisecond)
	counts := make([]int, request.Tasks)
	latencies := []int64{}
	err := each(request.Tasks, func(i int) error {
		goesOn := func() bool {
			if request.Count > 0 {
				return counts[i] < request.Count
			}
			return time.Now().Before(until)
		}
		for ; goesOn(); counts[i]++ {
			asked := time.Now()
			if err := locks[i].Acquire(); err != nil {
				return err
			}
			kept, err := locks[i].Release()
			if err != nil {
				return err
			}
			if !kept {
				return fmt.Errorf("a lock that nobody else wanted was lost")
			}
			if request.Tasks == 1 {
				latencies = append(latencies, time.Since(asked).Nanoseconds())
			}
		}
		return nil
	})
	elapsed := time.Since(started).Nanoseconds()
	count := 0
	for _, done := range counts {
		count += done
	}
	return response{"pairs": response{"count": count, "ns": elapsed, "latencies": latencies}}, err
}

func contend(system System, request request) (response, error) {
	locks := make([]Lock, request.Tasks)
	for i := range locks {
		lock, err := system.Lock(request.Name)
		if err != nil {
			return nil, err
		}
		locks[i] = lock
		defer lock.Close()
	}
	all := make([][]grant, request.Tasks)
	lost := make([]int, request.Tasks)
	err := each(request.Tasks, func(i int) error {
		// Numbers are unique among all processes.
		number := int64(request.Process + i*request.Of)
		time.Sleep(time.Duration(request.Start - now()))
		for {
			asked := now()
			if asked >= request.Until {
				return nil
			}
			if err := locks[i].Acquire(); err != nil {
				return err
			}
			acquired := now()
			if request.HoldUs > 0 && acquired < request.Until {
				time.Sleep(time.Duration(request.HoldUs) * time.Microsecond)
			}
			all[i] = append(all[i], grant{number, asked, acquired, now(), 0})
			kept, err := locks[i].Release()
			if err != nil {
				return err
			}
			if !kept {
				lost[i]++
			}
		}
	})
	grants, sum := []grant{}, 0
	for i := range all {
		grants = append(grants, all[i]...)
		sum += lost[i]
	}
	return response{"contended": response{"grants": grants, "lost": sum}}, err
}

// now is nanoseconds of the clock that all drivers share.
func now() int64 {
	var time unix.Timespec
	// It cannot fail for a clock that exists.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &time)
	return time.Nano()
}

func say(what response) {
	line, err := json.Marshal(what)
	if err != nil {
		line = []byte(`{"failed":"an answer could not be written"}`)
	}
	fmt.Println(string(line))
}
