package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Linux counts a process's time in hundredths of a second (USER_HZ) on every machine that Go runs on.
const ticksPerSecond = 100

// A meter counts the answers of one connection while the window is open.
type meter struct {
	window    *window
	count     int
	refused   int
	latencies []int32
}

// A window is what all meters share: the load before it warms up and is not counted.
type window struct {
	isOpen  atomic.Bool
	isAtEnd atomic.Bool
}

// measured is what a window saw: requests that were answered well, those that were refused, and seconds.
type measured struct {
	Requests  int     `json:"requests"`
	Refused   int     `json:"refused"`
	Seconds   float64 `json:"seconds"`
	ServerCPU float64 `json:"server_cpu"`
	LoadCPU   float64 `json:"load_cpu"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
}

func (m *meter) isStopping() bool { return m.window.isAtEnd.Load() }

func (m *meter) note(sent *times, answers, refused int) {
	now, isCounted := time.Now(), m.window.isOpen.Load()
	for range answers {
		started := sent.pop()
		if isCounted {
			m.latencies = append(m.latencies, int32(now.Sub(started).Microseconds()))
		}
	}
	if isCounted {
		m.count += answers - refused
		m.refused += refused
	}
}

// measure runs every load in a goroutine of its own, warms up, and counts for as long as the window is open.
func measure(o options, loads []func(*meter) error) (*measured, error) {
	shared := &window{}
	meters := make([]*meter, len(loads))
	failures := make(chan error, len(loads))
	var running sync.WaitGroup
	for index, load := range loads {
		meters[index] = &meter{window: shared, latencies: make([]int32, 0, 1<<14)}
		running.Go(func() {
			if err := load(meters[index]); err != nil {
				failures <- err
			}
		})
	}
	if err := waitFor(o.warmup, failures); err != nil {
		return nil, err
	}
	server, load, started := cpuSeconds(o.pid), ownCPUSeconds(), time.Now()
	shared.isOpen.Store(true)
	err := waitFor(o.window, failures)
	shared.isOpen.Store(false)
	seconds := time.Since(started).Seconds()
	server, load = cpuSeconds(o.pid)-server, ownCPUSeconds()-load
	shared.isAtEnd.Store(true)
	running.Wait()
	if err != nil {
		return nil, err
	}
	return sumUp(meters, &measured{Seconds: seconds, ServerCPU: server, LoadCPU: load}), nil
}

func waitFor(duration time.Duration, failures <-chan error) error {
	select {
	case err := <-failures:
		return err
	case <-time.After(duration):
		return nil
	}
}

func sumUp(meters []*meter, sum *measured) *measured {
	var latencies []int32
	for _, m := range meters {
		sum.Requests += m.count
		sum.Refused += m.refused
		latencies = append(latencies, m.latencies...)
	}
	slices.Sort(latencies)
	if count := len(latencies); count > 0 {
		sum.P50 = float64(latencies[count/2]) / 1e6
		sum.P99 = float64(latencies[count*99/100]) / 1e6
	}
	return sum
}

// cpuSeconds is the user and system time of a process with all its threads.
func cpuSeconds(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fail(err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	fail(err)
	system, err := strconv.Atoi(fields[12])
	fail(err)
	return float64(user+system) / ticksPerSecond
}

func ownCPUSeconds() float64 {
	var usage syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// times is a queue of when requests were sent: answers keep their order.
type times struct {
	ring       []time.Time
	head, tail int
}

func newTimes(most int) *times { return &times{ring: make([]time.Time, most)} }

func (t *times) push(at time.Time, count int) {
	for range count {
		t.ring[t.tail] = at
		t.tail = (t.tail + 1) % len(t.ring)
	}
}

func (t *times) pop() time.Time {
	at := t.ring[t.head]
	t.head = (t.head + 1) % len(t.ring)
	return at
}
