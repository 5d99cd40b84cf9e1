// Package peers is the part of a driver that is the same for every library in Go: it obeys one JSON object for each line of
// its standard input. lock-bench/peers/README.md says which there are.
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

// System is a library.
type System interface {
	// Lock makes a lock for one contender.
	Lock(name string) (Lock, error)
}

// Lock is a lock, for one contender.
type Lock interface {
	// Acquire waits until it has it.
	Acquire() error
	// Release says whether it was held until now, as far as the library does.
	Release() (bool, error)
	// Close gives back what the lock needed beside.
	Close()
}

// Setting is what a library is told.
type Setting struct {
	System  string
	Address string
	TTL     time.Duration
}

// Connected is a library that can be used, and its release.
type Connected struct {
	System  System
	Version string
}

type order struct {
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

type reply map[string]any

// grant is a tenure: task, asked, acquired, release called, shared.
type grant [5]int64

// Main connects to the library that the command line names, and serves.
func Main(connect func(Setting) (Connected, error)) {
	setting := Setting{}
	flag.StringVar(&setting.System, "system", "", "the library")
	flag.StringVar(&setting.Address, "address", "", "host:port of the server")
	ttl := flag.Int("ttl-ms", 30_000, "of a lock, or a session")
	flag.Parse()
	setting.TTL = time.Duration(*ttl) * time.Millisecond
	connected, err := connect(setting)
	if err != nil {
		say(reply{"failed": err.Error()})
		return
	}
	say(reply{"ready": reply{"version": connected.Version, "kinds": []string{"mutex"}}})
	serve(connected.System)
}

func serve(system System) {
	lines := bufio.NewScanner(os.Stdin)
	var held []Lock
	for lines.Scan() {
		var order order
		err := json.Unmarshal(lines.Bytes(), &order)
		var answer reply
		if err == nil {
			answer, err = obey(system, order, &held)
		}
		if err != nil {
			answer = reply{"failed": err.Error()}
		}
		say(answer)
	}
}

func obey(system System, order order, held *[]Lock) (reply, error) {
	switch order.Op {
	case "pairs":
		return pairs(system, order)
	case "contend":
		return contend(system, order)
	case "hold":
		lock, err := hold(system, order.Name)
		at := now()
		if err != nil {
			return nil, err
		}
		*held = append(*held, lock)
		return reply{"acquired": reply{"at_ns": at}}, nil
	case "keep":
		return keep(system, order, held)
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
		return reply{"done": reply{"lost": lost}}, nil
	}
	return nil, fmt.Errorf("not an order: %s", order.Op)
}

func hold(system System, name string) (Lock, error) {
	lock, err := system.Lock(name)
	if err != nil {
		return nil, err
	}
	return lock, lock.Acquire()
}

// each runs so many tasks at the same time, and gives the first error.
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

func keep(system System, order order, held *[]Lock) (reply, error) {
	const atOnce = 64
	kept := make([]Lock, order.Count)
	err := each(atOnce, func(first int) error {
		for i := first; i < order.Count; i += atOnce {
			lock, err := hold(system, fmt.Sprintf("%s-%d", order.Name, i))
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
	return reply{"done": reply{"lost": 0}}, nil
}

func pairs(system System, order order) (reply, error) {
	locks := make([]Lock, order.Tasks)
	for i := range locks {
		lock, err := system.Lock(fmt.Sprintf("%s-%d", order.Name, i))
		if err != nil {
			return nil, err
		}
		locks[i] = lock
		defer lock.Close()
	}
	started := time.Now()
	until := started.Add(time.Duration(order.RunMs) * time.Millisecond)
	counts := make([]int, order.Tasks)
	latencies := []int64{}
	err := each(order.Tasks, func(i int) error {
		goesOn := func() bool {
			if order.Count > 0 {
				return counts[i] < order.Count
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
			if order.Tasks == 1 {
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
	return reply{"pairs": reply{"count": count, "ns": elapsed, "latencies": latencies}}, err
}

func contend(system System, order order) (reply, error) {
	locks := make([]Lock, order.Tasks)
	for i := range locks {
		lock, err := system.Lock(order.Name)
		if err != nil {
			return nil, err
		}
		locks[i] = lock
		defer lock.Close()
	}
	all := make([][]grant, order.Tasks)
	lost := make([]int, order.Tasks)
	err := each(order.Tasks, func(i int) error {
		// All processes number their contenders together.
		number := int64(order.Process + i*order.Of)
		time.Sleep(time.Duration(order.Start - now()))
		for {
			asked := now()
			if asked >= order.Until {
				return nil
			}
			if err := locks[i].Acquire(); err != nil {
				return err
			}
			acquired := now()
			if order.HoldUs > 0 && acquired < order.Until {
				time.Sleep(time.Duration(order.HoldUs) * time.Microsecond)
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
	return reply{"contended": reply{"grants": grants, "lost": sum}}, err
}

// now is nanoseconds of the clock that all drivers share.
func now() int64 {
	var time unix.Timespec
	// It cannot fail for a clock that there is.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &time)
	return time.Nano()
}

func say(what reply) {
	line, err := json.Marshal(what)
	if err != nil {
		line = []byte(`{"failed":"an answer could not be written"}`)
	}
	fmt.Println(string(line))
}
