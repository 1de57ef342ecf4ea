// The load of the group benchmarks, the same for every server. One connection and one goroutine per member.
//
//	load heartbeat -bootstrap HOST:PORT -pid PID -groups 1 -members 200 -inflight 8 -warmup 3s -window 5s
//	load commit    (the same) -topics a,b,c -partitions 10
//	load rebalance -bootstrap HOST:PORT -pid PID -groups 1 -members 200 -warmup-rounds 20 -rounds 10
//
// -members are those of each group. Heartbeats and commits are sent in a closed loop, so many in flight per connection;
// frames are encoded once, and only their correlation ids change. What was measured is one line of JSON on stdout. The
// server's CPU time is that of the process -pid with all its threads, read at both ends of the window.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

type options struct {
	bootstrap    string
	pid          int
	groups       int
	members      int
	inflight     int
	topics       []string
	partitions   int
	warmup       time.Duration
	window       time.Duration
	warmupRounds int
	rounds       int
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say heartbeat, commit or rebalance"))
	}
	loads := map[string]func(options) (any, error){"heartbeat": heartbeat, "commit": commit, "rebalance": rebalance}
	load, isKnown := loads[os.Args[1]]
	if !isKnown {
		fail(fmt.Errorf("%q is neither heartbeat, commit nor rebalance", os.Args[1]))
	}
	measured, err := load(parse(os.Args[2:]))
	if err != nil {
		fail(err)
	}
	fail(json.NewEncoder(os.Stdout).Encode(measured))
}

func parse(arguments []string) options {
	var o options
	var topics string
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	flags.StringVar(&o.bootstrap, "bootstrap", "", "the server, host:port")
	flags.IntVar(&o.pid, "pid", 0, "the server's process")
	flags.IntVar(&o.groups, "groups", 1, "how many groups")
	flags.IntVar(&o.members, "members", 200, "how many members each group has")
	flags.IntVar(&o.inflight, "inflight", 1, "requests in flight per connection")
	flags.StringVar(&topics, "topics", "bench", "commit: topics that a request names")
	flags.IntVar(&o.partitions, "partitions", 1, "commit: partitions of each topic that a request names")
	flags.DurationVar(&o.warmup, "warmup", 3*time.Second, "load before the window")
	flags.DurationVar(&o.window, "window", 5*time.Second, "load that is measured")
	flags.IntVar(&o.warmupRounds, "warmup-rounds", 20, "rebalances before those that are measured")
	flags.IntVar(&o.rounds, "rounds", 10, "rebalances that are measured")
	_ = flags.Parse(arguments) // ends the process itself
	o.topics = strings.Split(topics, ",")
	return o
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}
