package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// heartbeat has every member beat as fast as it is answered.
func heartbeat(o options) (any, error) {
	return flood(o, func(m *member) repeated {
		request := kmsg.NewPtrHeartbeatRequest()
		request.SetVersion(heartbeatVersion)
		request.Group, request.Generation, request.MemberID = m.group.id, m.generation, m.id
		return repeated{request, func(response kmsg.Response) error {
			return refused("Heartbeat", response.(*kmsg.HeartbeatResponse).ErrorCode)
		}}
	})
}

// commit has every member commit offsets of the same partitions as fast as it is answered.
func commit(o options) (any, error) {
	return flood(o, func(m *member) repeated {
		request := kmsg.NewPtrOffsetCommitRequest()
		request.SetVersion(commitVersion)
		request.Group, request.Generation, request.MemberID = m.group.id, m.generation, m.id
		for _, name := range o.topics {
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = name
			for index := range o.partitions {
				partition := kmsg.NewOffsetCommitRequestTopicPartition()
				partition.Partition, partition.Offset, partition.LeaderEpoch = int32(index), varyingOffset, 0
				metadata := ""
				partition.Metadata = &metadata
				topic.Partitions = append(topic.Partitions, partition)
			}
			request.Topics = append(request.Topics, topic)
		}
		return repeated{request, func(response kmsg.Response) error {
			return allCommitted(response.(*kmsg.OffsetCommitResponse), o)
		}}
	})
}

func allCommitted(response *kmsg.OffsetCommitResponse, o options) error {
	count := 0
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := refused("OffsetCommit", partition.ErrorCode); err != nil {
				return err
			}
			count++
		}
	}
	if count != len(o.topics)*o.partitions {
		return fmt.Errorf("OffsetCommit was answered for %d partitions", count)
	}
	return nil
}

// flood measures a request that every member repeats.
func flood(o options, make func(*member) repeated) (any, error) {
	groups, err := form(o)
	if err != nil {
		return nil, err
	}
	var loads []func(*meter) error
	for _, g := range groups {
		for _, m := range g.members {
			request := make(m)
			loads = append(loads, func(meter *meter) error { return m.repeat(request, o.inflight, meter) })
		}
	}
	seen, err := measure(o, loads)
	if err != nil {
		return nil, err
	}
	return seen, disband(groups)
}

// rebalanced is what the measured rounds saw: seconds from the moment that all members rejoin until the last has its
// assignment.
type rebalanced struct {
	Rounds    []float64 `json:"rounds"`
	ServerCPU float64   `json:"server_cpu"`
	LoadCPU   float64   `json:"load_cpu"`
}

func rebalance(o options) (any, error) {
	groups, err := form(o)
	if err != nil {
		return nil, err
	}
	for range o.warmupRounds {
		if _, err := rebalanceOnce(groups); err != nil {
			return nil, err
		}
	}
	server, load := cpuSeconds(o.pid), ownCPUSeconds()
	seen := &rebalanced{}
	for range o.rounds {
		seconds, err := rebalanceOnce(groups)
		if err != nil {
			return nil, err
		}
		seen.Rounds = append(seen.Rounds, seconds)
	}
	seen.ServerCPU, seen.LoadCPU = cpuSeconds(o.pid)-server, ownCPUSeconds()-load
	return seen, disband(groups)
}

// rebalanceOnce lets all members go at the same moment.
func rebalanceOnce(groups []*group) (float64, error) {
	begin := make(chan struct{})
	var ready sync.WaitGroup
	for _, g := range groups {
		ready.Add(len(g.members))
	}
	var begun time.Time
	go func() {
		ready.Wait()
		begun = time.Now()
		close(begin)
	}()
	err := everyMember(groups, func(m *member) error {
		ready.Done()
		<-begin
		return m.rejoin()
	})
	return time.Since(begun).Seconds(), err
}
