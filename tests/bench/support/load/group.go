package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// As a Java client of Kafka 4 sends them.
	findCoordinatorVersion = 6
	joinVersion            = 9
	syncVersion            = 5
	heartbeatVersion       = 4
	leaveVersion           = 5
	commitVersion          = 9

	coordinatorLoading      = 14
	coordinatorNotAvailable = 15
	notCoordinator          = 16
	rebalanceInProgress     = 27
	memberIDRequired        = 79

	// Longer than a benchmark: while one server is measured, nobody beats for the groups of the other.
	sessionTimeout   = 30 * time.Minute
	rebalanceTimeout = 5 * time.Minute
	coordinatorWait  = 60 * time.Second
	dialsAtOnce      = 16
)

// A group of members that are all in this process.
type group struct {
	id      string
	members []*member
	sizes   sync.Map // generation to *size
}

// A size is how many members a generation has, once its leader knows.
type size struct {
	known   chan struct{}
	members int
}

type member struct {
	*connection
	group      *group
	number     int
	id         string
	generation int32
	round      int32
}

// form makes the groups and has every member join: each is Stable, with all its members.
func form(o options) ([]*group, error) {
	if err := findCoordinators(o); err != nil {
		return nil, err
	}
	groups := make([]*group, o.groups)
	for index := range groups {
		groups[index] = &group{id: groupID(o, index), members: make([]*member, o.members)}
	}
	slots := make(chan struct{}, dialsAtOnce)
	err := each(groups, func(number int, g *group) error {
		return each(g.members, func(number int, _ *member) error {
			slots <- struct{}{}
			defer func() { <-slots }()
			c, err := dial(o.bootstrap, fmt.Sprintf("consumer-%s-%d", g.id, number))
			if err != nil {
				return err
			}
			g.members[number] = &member{connection: c, group: g, number: number}
			return g.members[number].requestID()
		})
	})
	if err != nil {
		return nil, err
	}
	return groups, everyMember(groups, (*member).rejoin)
}

var started = time.Now().UnixNano()

// groupID is new in each run: what an earlier one left plays no part.
func groupID(o options, index int) string {
	return fmt.Sprintf("bench-%d-%d", started%1e9, index)
}

// disband has every member leave, one request per group, and hangs up.
func disband(groups []*group) error {
	return each(groups, func(_ int, g *group) error {
		request := kmsg.NewPtrLeaveGroupRequest()
		request.SetVersion(leaveVersion)
		request.Group = g.id
		for _, m := range g.members {
			leaving := kmsg.NewLeaveGroupRequestMember()
			leaving.MemberID = m.id
			request.Members = append(request.Members, leaving)
		}
		response, err := g.members[0].ask(request)
		for _, m := range g.members {
			m.socket.Close()
		}
		if err != nil {
			return err
		}
		return refused("LeaveGroup", response.(*kmsg.LeaveGroupResponse).ErrorCode)
	})
}

// findCoordinators waits until the server coordinates all groups; the first one to ask has the offsets topic made.
func findCoordinators(o options) error {
	c, err := dial(o.bootstrap, "bench")
	if err != nil {
		return err
	}
	defer c.socket.Close()
	deadline := time.Now().Add(coordinatorWait)
	for {
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.SetVersion(findCoordinatorVersion)
		for index := range o.groups {
			request.CoordinatorKeys = append(request.CoordinatorKeys, groupID(o, index))
		}
		response, err := c.ask(request)
		if err != nil {
			return err
		}
		var code int16
		for _, found := range response.(*kmsg.FindCoordinatorResponse).Coordinators {
			code = max(code, found.ErrorCode)
		}
		if code == 0 || time.Now().After(deadline) {
			return refused("FindCoordinator", code)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// requestID joins without an id and is given one (KIP-394).
func (m *member) requestID() error {
	for deadline := time.Now().Add(coordinatorWait); ; {
		response, err := m.ask(m.joinRequest())
		if err != nil {
			return err
		}
		joined := response.(*kmsg.JoinGroupResponse)
		switch joined.ErrorCode {
		case memberIDRequired:
			m.id = joined.MemberID
			return nil
		case coordinatorLoading, coordinatorNotAvailable, notCoordinator:
			if time.Now().Before(deadline) {
				time.Sleep(100 * time.Millisecond)
				continue
			}
		}
		return fmt.Errorf("JoinGroup without a member id got error %d", joined.ErrorCode)
	}
}

// rejoin joins and syncs until it is in a generation that has all members.
func (m *member) rejoin() error {
	for {
		joined, err := m.join()
		if err != nil {
			return err
		}
		if m.group.sizeOf(joined) < len(m.group.members) {
			continue
		}
		isStable, err := m.sync(joined)
		if isStable || err != nil {
			return err
		}
	}
}

func (m *member) join() (*kmsg.JoinGroupResponse, error) {
	m.round++
	response, err := m.ask(m.joinRequest())
	if err != nil {
		return nil, err
	}
	joined := response.(*kmsg.JoinGroupResponse)
	m.generation = joined.Generation
	return joined, refused("JoinGroup", joined.ErrorCode)
}

// sync is false if the group was rebalanced meanwhile.
func (m *member) sync(joined *kmsg.JoinGroupResponse) (bool, error) {
	request := kmsg.NewPtrSyncGroupRequest()
	request.SetVersion(syncVersion)
	request.Group, request.Generation, request.MemberID = m.group.id, m.generation, m.id
	request.ProtocolType, request.Protocol = joined.ProtocolType, joined.Protocol
	for index, other := range joined.Members { // of the leader
		assigned := kmsg.NewSyncGroupRequestGroupAssignment()
		assigned.MemberID, assigned.MemberAssignment = other.MemberID, assignment(index)
		request.GroupAssignment = append(request.GroupAssignment, assigned)
	}
	response, err := m.ask(request)
	if err != nil {
		return false, err
	}
	synced := response.(*kmsg.SyncGroupResponse)
	if synced.ErrorCode == rebalanceInProgress {
		return false, nil
	}
	if synced.ErrorCode == 0 && len(synced.MemberAssignment) == 0 {
		return false, fmt.Errorf("SyncGroup gave member %d nothing", m.number)
	}
	return true, refused("SyncGroup", synced.ErrorCode)
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	request := kmsg.NewPtrJoinGroupRequest()
	request.SetVersion(joinVersion)
	request.Group, request.MemberID, request.ProtocolType = m.group.id, m.id, "consumer"
	request.SessionTimeoutMillis = int32(sessionTimeout.Milliseconds())
	request.RebalanceTimeoutMillis = int32(rebalanceTimeout.Milliseconds())
	for _, name := range []string{"range", "cooperative-sticky"} { // as the Java consumer does by default
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = name, subscription(m.number, m.round)
		request.Protocols = append(request.Protocols, protocol)
	}
	reason := "rebalance failed due to a new generation"
	request.Reason = &reason
	return request
}

// sizeOf is how many members the generation has; a follower waits for its leader to say.
func (g *group) sizeOf(joined *kmsg.JoinGroupResponse) int {
	stored, _ := g.sizes.LoadOrStore(joined.Generation, &size{known: make(chan struct{})})
	generation := stored.(*size)
	if joined.LeaderID == joined.MemberID {
		generation.members = len(joined.Members)
		close(generation.known)
	}
	<-generation.known
	return generation.members
}

// subscription is that of a consumer of two topics, and another one in each round, so that joining rebalances.
func subscription(number int, round int32) []byte {
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Version = 3
	metadata.Topics = []string{"orders.created.v1", "payments.settled.v1"}
	metadata.Generation = round
	for _, topic := range metadata.Topics {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic, owned.Partitions = topic, partitionsOf(number, 4)
		metadata.OwnedPartitions = append(metadata.OwnedPartitions, owned)
	}
	return metadata.AppendTo(nil)
}

func assignment(number int) []byte {
	plan := kmsg.NewConsumerMemberAssignment()
	plan.Version = 3
	for _, name := range []string{"orders.created.v1", "payments.settled.v1"} {
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic, topic.Partitions = name, partitionsOf(number, 4)
		plan.Topics = append(plan.Topics, topic)
	}
	return plan.AppendTo(nil)
}

func partitionsOf(number, count int) []int32 {
	partitions := make([]int32, count)
	for index := range partitions {
		partitions[index] = int32(number*count + index)
	}
	return partitions
}

func refused(api string, code int16) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s got error %d", api, code)
}

func everyMember(groups []*group, act func(*member) error) error {
	return each(groups, func(_ int, g *group) error {
		return each(g.members, func(_ int, m *member) error { return act(m) })
	})
}

// each acts on all at once and has the first error.
func each[T any](all []T, act func(int, T) error) error {
	var failure atomic.Pointer[error]
	var running sync.WaitGroup
	for index, one := range all {
		running.Go(func() {
			if err := act(index, one); err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	running.Wait()
	if first := failure.Load(); first != nil {
		return *first
	}
	return nil
}
