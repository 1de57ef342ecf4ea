// Asks the balancers of franz-go and of sarama: a case as a line of JSON in, a line with their plans out.
//
// Both iterate over Go maps, so that the same question may have several answers. Each is asked as often as the line
// says, and all plans that differ come back.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	ID           string  `json:"id"`
	Instance     *string `json:"instance"`
	Subscription []byte  `json:"subscription"`
}

type question struct {
	Library  string           `json:"library"`
	Strategy string           `json:"strategy"`
	Members  []member         `json:"members"`
	Topics   map[string]int32 `json:"topics"`
	Times    int              `json:"times"`
}

type plan map[string]map[string][]int32

type answer struct {
	Plans []plan `json:"plans,omitempty"`
	Error string `json:"error,omitempty"`
}

var franzGo = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

var ofSarama = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked question
		check(json.Unmarshal(line, &asked))
		check(json.NewEncoder(os.Stdout).Encode(reply(asked)))
	}
}

func reply(asked question) answer {
	found := map[string]plan{}
	for range asked.Times {
		made, err := balance(asked)
		if err != nil {
			return answer{Error: err.Error()}
		}
		for _, held := range made {
			for _, numbers := range held {
				slices.Sort(numbers)
			}
		}
		key, err := json.Marshal(made) // which sorts the keys of maps
		check(err)
		found[string(key)] = made
	}
	var all answer
	for _, made := range found {
		all.Plans = append(all.Plans, made)
	}
	return all
}

func balance(asked question) (plan, error) {
	switch asked.Library {
	case "franz-go":
		return balanceWithFranzGo(asked)
	case "sarama":
		return balanceWithSarama(asked)
	case "lists":
		return nil, validateSarama(strings.Split(asked.Strategy, ","))
	}
	return nil, fmt.Errorf("there is no library %s", asked.Library)
}

func balanceWithFranzGo(asked question) (plan, error) {
	var members []kmsg.JoinGroupResponseMember
	for _, each := range asked.Members {
		joined := kmsg.NewJoinGroupResponseMember()
		joined.MemberID, joined.InstanceID = each.ID, each.Instance
		joined.ProtocolMetadata = slices.Clone(each.Subscription)
		members = append(members, joined)
	}
	// As the client does, before it hands them to a balancer.
	slices.SortFunc(members, func(l, r kmsg.JoinGroupResponseMember) int {
		switch {
		case l.InstanceID != nil && r.InstanceID != nil:
			return strings.Compare(*l.InstanceID, *r.InstanceID)
		case l.InstanceID != nil:
			return -1
		case r.InstanceID != nil:
			return 1
		}
		return strings.Compare(l.MemberID, r.MemberID)
	})
	balancer, topics, err := franzGo[asked.Strategy]().MemberBalancer(members)
	if err != nil {
		return nil, err
	}
	counts := map[string]int32{}
	for topic := range topics {
		if count, exists := asked.Topics[topic]; exists {
			counts[topic] = count
		}
	}
	into, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(counts)
	if err != nil {
		return nil, err
	}
	made := plan{}
	for _, each := range into.IntoSyncAssignment() {
		held, err := kgo.ParseConsumerSyncAssignment(each.MemberAssignment)
		if err != nil {
			return nil, err
		}
		made[each.MemberID] = held
	}
	return made, nil
}

func balanceWithSarama(asked question) (plan, error) {
	members := map[string]sarama.ConsumerGroupMemberMetadata{}
	topics := map[string][]int32{}
	made := plan{}
	for _, each := range asked.Members {
		described := sarama.GroupMemberDescription{MemberId: each.ID, MemberMetadata: each.Subscription}
		metadata, err := described.GetMemberMetadata()
		if err != nil {
			return nil, err
		}
		members[each.ID] = *metadata
		made[each.ID] = map[string][]int32{}
		for _, topic := range metadata.Topics {
			topics[topic] = nil
			for number := range asked.Topics[topic] {
				topics[topic] = append(topics[topic], number)
			}
		}
	}
	planned, err := ofSarama[asked.Strategy]().Plan(members, topics)
	for id, held := range planned {
		made[id] = held
	}
	return made, err
}

func validateSarama(strategies []string) error {
	config := sarama.NewConfig()
	config.Consumer.Group.Rebalance.GroupStrategies = nil
	for _, each := range strategies {
		config.Consumer.Group.Rebalance.GroupStrategies = append(
			config.Consumer.Group.Rebalance.GroupStrategies, ofSarama[each]())
	}
	return config.Validate()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
