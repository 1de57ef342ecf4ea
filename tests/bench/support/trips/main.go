// Round trips of one frame, over several ways to the same broker in turn: the client of the proxy's benchmark.
//
// It reads a plan as JSON from stdin and writes what it measured to stdout. Each way has one connection, with one request
// in flight. In each round each way has its requests, and who begins goes around. The frame is encoded beforehand by
// whoever wrote the plan; only its correlation id changes. Sockets block, so that between a request and its answer there
// are two system calls and nothing of Go's own scheduling.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

type plan struct {
	Ways []way `json:"ways"`
	// Rounds that are not measured, those that are, and how many requests each way has in each.
	WarmupRounds int `json:"warmup_rounds"`
	Rounds       int `json:"rounds"`
	Requests     int `json:"requests"`
	// IsConstant: all answers are the same but for their correlation ids. Else they are as long.
	IsConstant bool `json:"is_constant"`
}

// A way to the broker, and the frame that is sent over it, with its length in front.
type way struct {
	Address string `json:"address"`
	Frame   []byte `json:"frame"`
}

// measured is what one way saw, in seconds.
type measured struct {
	Medians []float64 `json:"medians"` // of each round
	Waits   []float64 `json:"waits"`   // of each round: for all its answers together
	P50     float64   `json:"p50"`
	P99     float64   `json:"p99"`
	Length  int       `json:"length"` // of each answer
}

func main() {
	var p plan
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		fail(fmt.Errorf("the plan: %w", err))
	}
	seen, err := follow(p)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		fail(err)
	}
}

func follow(p plan) ([]*measured, error) {
	connections := make([]*connection, len(p.Ways))
	seen := make([]*measured, len(p.Ways))
	latencies := make([][]time.Duration, len(p.Ways))
	for index, w := range p.Ways {
		c, err := dial(w, p.IsConstant)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Address, err)
		}
		connections[index] = c
		seen[index] = &measured{}
		latencies[index] = make([]time.Duration, 0, p.Rounds*p.Requests)
	}
	round := make([]time.Duration, p.Requests)
	for number := range p.WarmupRounds + p.Rounds {
		for turn := range connections {
			index := (number + turn) % len(connections)
			if err := connections[index].repeat(round); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Ways[index].Address, err)
			}
			if number >= p.WarmupRounds {
				latencies[index] = append(latencies[index], round...)
				seen[index].Medians = append(seen[index].Medians, quantile(round, 0.5))
				seen[index].Waits = append(seen[index].Waits, sum(round))
			}
		}
	}
	for index, m := range seen {
		m.P50, m.P99 = quantile(latencies[index], 0.5), quantile(latencies[index], 0.99)
		m.Length = len(connections[index].first)
	}
	return seen, nil
}

// quantile sorts in place.
func quantile(latencies []time.Duration, share float64) float64 {
	slices.Sort(latencies)
	return latencies[int(share*float64(len(latencies)-1))].Seconds()
}

func sum(latencies []time.Duration) float64 {
	var all time.Duration
	for _, each := range latencies {
		all += each
	}
	return all.Seconds()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "trips:", err)
	os.Exit(1)
}
